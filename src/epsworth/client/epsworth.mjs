// The device's door in JavaScript: one record at a time, for browsers and Node, the same to the bit as epsworth.client.
//
//   import { Client } from "./epsworth.mjs";
//   const client = new Client(await (await fetch("policy.json")).text());
//   const released = client.perturb({ age: 31 });
//
// Draws and what decides them are whole numbers (BigInt, or below 2^53); doubles only place a value on its public grid, and back.

const FORMAT = "epsworth-client-1";
const LONGEST = 2 ** 26, DEPTH = 16, DIGITS = 40, WHOLE = 2 ** 53;
const WORD = 1n << 64n, PRECISION = 256n; // fraction bits of partial sums of e^x
const MOST_POINTS = 65536, MOST_FEATURES = 4096;
const WIDE = 2 ** 900; // products of ends beyond it are taken of their 2^-32
const ENTROPY = globalThis.crypto ?? (await import("node:crypto")).webcrypto; // older Node has it there alone
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,39}$/; // of a column: what a message may show
const WORDS_AT_ONCE = 8192; // more are refused by getRandomValues

// A refusal: code says what was refused, for programs; message says it to people, and never shows a value.
export class Refusal extends Error {
  constructor(sentence, code) {
    super(sentence);
    this.name = "Refusal";
    this.code = code;
  }
}

function refuse(sentence, code = "policy") {
  throw new Refusal(sentence, code);
}

// ---- The policy's fingerprint, computed anew ----

const range = (count) => Array.from({ length: count }, (_, i) => i);
const PRIMES = range(312).filter((n) => n > 1 && !range(n).some((d) => d > 1 && n % d === 0)); // the first 64

function rootBits(prime, k) { // the first 32 bits after the point of its k-th root
  let root = 0n;
  for (let bit = 1n << 40n; bit; bit >>= 1n) if ((root | bit) ** k <= BigInt(prime) << (32n * k)) root |= bit;
  return Number(BigInt.asIntN(32, root));
}

const START = PRIMES.slice(0, 8).map((prime) => rootBits(prime, 2n)), ROUNDS = PRIMES.map((prime) => rootBits(prime, 3n));
const turn = (x, by) => (x >>> by) | (x << (32 - by));

// SHA-256 (FIPS 180-4) of an ASCII text, in hexadecimal digits: crypto.subtle would have to be waited for.
export function sha256(text) {
  const state = Int32Array.from(START), W = new Int32Array(64), blocks = Math.floor((text.length + 8) / 64) + 1;
  const byte = (at) => (at < text.length ? text.charCodeAt(at) : at === text.length ? 128 : 0);
  for (let first = 0; first < 64 * blocks; first += 64) {
    for (let t = 0; t < 16; t++) {
      const at = first + 4 * t;
      W[t] = (byte(at) << 24) | (byte(at + 1) << 16) | (byte(at + 2) << 8) | byte(at + 3);
    }
    if (first + 64 === 64 * blocks) [W[14], W[15]] = [text.length / 2 ** 29, text.length << 3]; // its length in bits
    for (let t = 16; t < 64; t++) {
      const near = turn(W[t - 2], 17) ^ turn(W[t - 2], 19) ^ (W[t - 2] >>> 10);
      W[t] = near + W[t - 7] + (turn(W[t - 15], 7) ^ turn(W[t - 15], 18) ^ (W[t - 15] >>> 3)) + W[t - 16];
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[t] + W[t]) | 0;
      const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
  }
  return [...state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

// The fingerprint that a policy's text begins with, if it is that of all the rest: of the very letters, so that no two
// languages can differ in how they write a number.
function fingerprintOf(text) {
  if (typeof text !== "string") refuse("the policy must be a text of JSON; read the file first");
  if (text.length > LONGEST) refuse("the policy is longer than 64 MiB; write it anew");
  const stated = /^\{"fingerprint": "([0-9a-f]{64})", /.exec(text);
  if (stated === null || /[^\0-\x7f]/.test(text))
    refuse("fingerprint: must be what the policy begins with; give the file that epsworth client writes");
  if (sha256("{" + text.slice(stated[0].length)) !== stated[1])
    refuse("fingerprint: is not that of the content, which was edited after it was written; write it anew");
  return stated[1];
}

// ---- The policy's JSON, strictly read ----

const TOKEN = /"[^"\\]*(?:\\[^][^"\\]*)*"(\s*:)?|[[{]|[\]}]|-?[0-9][0-9.eE+-]*/g;

function read(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    refuse("the policy is no JSON; give the file that epsworth client writes, whole");
  }
  const members = []; // of the objects around a token
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") {
      members.push(new Set());
      if (members.length > DEPTH) refuse(`the policy is nested more than ${DEPTH} deep; write it anew`);
    } else if (token === "}" || token === "]") members.pop();
    else if (token[0] !== '"') checkNumber(token);
    else if (colon !== undefined) {
      const own = members[members.length - 1], name = JSON.parse(token.slice(0, -colon.length));
      if (own.has(name)) refuse("the policy names a member twice; write it anew");
      own.add(name);
    }
  }
  return document;
}

function checkNumber(token) {
  const fraction = /[.eE]/.test(token);
  if (token.length > DIGITS || !Number.isFinite(Number(token)) || (!fraction && Math.abs(Number(token)) >= WHOLE))
    refuse("the policy holds a number that is too long, not finite, or rounded by some languages; write it anew");
}

const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key);
const isTable = (given) => typeof given === "object" && given !== null && !Array.isArray(given);

function table(where, given, needed, more = []) {
  if (!isTable(given)) refuse(`${where}: must be an object; write the policy anew`);
  for (const key of needed) if (!has(given, key)) refuse(`${where}: lacks ${key}; write the policy anew`);
  for (const key of Object.keys(given))
    if (!needed.includes(key) && !more.includes(key))
      refuse(`${where}: has a member that this client does not know; use a newer one`);
  return given;
}

function texts(where, given) {
  const fine = Array.isArray(given) && given.every((one) => typeof one === "string");
  if (!fine || new Set(given).size < given.length)
    refuse(`${where}: must be a list of different texts; write the policy anew`);
  return new Set(given);
}

function whole(where, given, least, most) {
  if (!Number.isInteger(given) || given < least || given > most)
    refuse(`${where}: must be a whole number from ${least} to ${most}; write the policy anew`);
  return given;
}

function number(where, given) {
  if (typeof given !== "number") refuse(`${where}: must be a number; write the policy anew`);
  return given;
}

// ---- Integers recomputed from epsilon, and proven ----

// Fractions are pairs [numerator, denominator] of BigInt, the denominator positive.
function reduced(n, d) {
  let [a, b] = [n < 0n ? -n : n, d];
  while (b) [a, b] = [b, a % b];
  return a ? [n / a, d / a] : [0n, 1n];
}

function fromDouble(x) { // positive, exactly
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0), exponent = Number(bits >> 52n);
  const digits = (bits & ((1n << 52n) - 1n)) | (exponent ? 1n << 52n : 0n);
  const power = (exponent || 1) - 1075;
  return power >= 0 ? [digits << BigInt(power), 1n] : reduced(digits, 1n << BigInt(-power));
}

const EPSILON = /^(?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,420})?$/;

function stated(text) { // what the text says, or its double where that is smaller
  const nearest = Number(text);
  if (!(nearest >= 1e-9 && nearest <= 700)) refuse("epsilon must lie between 1e-9 and 700; write the policy anew");
  const [before, after = ""] = text.split(".");
  const said = reduced(BigInt(before + after), 10n ** BigInt(after.length)), near = fromDouble(nearest);
  return near[0] * said[1] < said[0] * near[1] ? near : said;
}

function expBelow([n, d]) { // a partial sum of the Taylor series, every term rounded down
  let term = 1n << PRECISION, total = term;
  for (let i = 1n; term; i++) {
    term = (term * n) / (d * i);
    total += term;
  }
  return [total, 1n << PRECISION];
}

function narrow([n, d]) { // 1 / (e^(epsilon/2) + 1)
  const [p, q] = expBelow([n, 2n * d]);
  return [q, p + q];
}

function wave(epsilon) { // (e^epsilon (epsilon - 1) + 1) / (e^epsilon - 1)^2
  const [p, q] = expBelow(epsilon), [n, d] = epsilon;
  return [(p * (n - d) + q * d) * q, d * (p - q) * (p - q)];
}

const SHARES = {
  krr: [() => [0n, 1n], false],
  pm: [narrow, false],
  sw: [wave, false],
  pm_affine: [narrow, true],
  sw_affine: [wave, true],
}; // how much of the grid the window covers, about, and whether it slides; of others a policy states the width

function inverse(a, m) {
  let [r, next, t, following] = [m, a % m, 0n, 1n];
  while (next) {
    const times = r / next;
    [r, next] = [next, r - times * next];
    [t, following] = [following, t - times * following];
  }
  if (r !== 1n) refuse("no whole weights on so many points; write the policy anew");
  return ((t % m) + m) % m;
}

class TwoLevel {
  constructor(mechanism, epsilon, points, window = null) { // which is that of one of SHARES, or its width, and whether it slides
    const [share, affine] = window ?? SHARES[mechanism], P = BigInt(points), [n, d] = window ? [share, P] : share(epsilon);
    const top = points % 2 === 0 ? P - 1n : P - 2n;
    let width = 2n * ((n * P) / (2n * d)) + 1n;
    if (width < 1n) width = 1n;
    if (width > top) width = top;
    if (width < 1n) refuse("no weights on so few points; write the policy anew");
    const [p, q] = expBelow(epsilon), sum = (P - width) * q + width * p;
    const least = (WORD * q + sum - 1n) / sum;
    const low = least + ((((WORD * inverse(P, width) - least) % width) + width) % width);
    const high = (WORD - (P - width) * low) / width;
    const fine = width >= 1n && width < P && low >= 1n && low < high;
    if (!fine || width * high + (P - width) * low !== WORD || high * q > p * low) // the proof
      refuse(`no weights on ${points} points keep so small an epsilon; use fewer points`);
    Object.assign(this, { affine, points, low, high, width, level: P * low, gap: high - low });
    this.room = points - Number(width);
    this.half = (Number(width) - 1) / 2;
  }

  left(i) {
    if (this.affine) return Math.floor((2 * i * this.room + this.points - 1) / (2 * (this.points - 1)));
    return Math.min(Math.max(i - this.half, 0), this.room);
  }

  outcome(i, word) {
    if (word < this.level) return Number(word / this.low);
    return this.left(i) + (this.width === 1n ? 0 : Number((word - this.level) / this.gap));
  }
}

function epsilonOf(where, given) {
  if (typeof given !== "string" || !EPSILON.test(given))
    refuse(`${where}: must be a text of digits, such as '0.5'; write the policy anew`);
  return stated(given);
}

// ---- Public grids: a value to its place, a place to the value that leaves ----

const KINDS = ["string", "number", "boolean"];
const key = (value) => (typeof value === "boolean" ? Number(value) : value); // a truth equals its number

function halfToEven(v) {
  const below = Math.floor(v), rest = v - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

function codesOf(where, kinds) {
  if (!Array.isArray(kinds) || !kinds.every((one) => KINDS.includes(typeof one)))
    refuse(`${where}.categories: must be a list of texts, numbers and truths; write the policy anew`);
  const codes = new Map(kinds.map((one, i) => [key(one), i]));
  if (codes.size < kinds.length) refuse(`${where}.categories: must be different ones; write the policy anew`);
  return codes;
}

function endsOf(where, entry) {
  const lower = number(`${where}.lower`, entry.lower), upper = number(`${where}.upper`, entry.upper);
  if (!(lower < upper && Number.isFinite(upper - lower)))
    refuse(`${where}: upper must lie above lower, and not too far; write the policy anew`);
  return [lower, upper];
}

function placeOf(value, lower, upper, points) { // clamped; half way the even one
  const clipped = Math.min(Math.max(value, lower), upper);
  return halfToEven(((clipped - lower) / (upper - lower)) * (points - 1));
}

function natural(y, steps, lower, upper) {
  if (upper - lower === steps && Number.isInteger(lower) && Math.max(-lower, upper) < WHOLE) return lower + y;
  const scale = Math.max(Math.abs(lower), Math.abs(upper)) > WIDE ? 2 ** -32 : 1;
  const low = scale * lower, high = scale * upper;
  if (y === 0 || y === steps) return (y ? high : low) / scale;
  return Math.min(Math.max((low * (steps - y) + high * y) / steps, low), high) / scale;
}

// ---- One feature ----

const NEEDED = ["name", "mechanism", "epsilon", "points", "low", "high", "width"];

// The window that is stated of a mechanism that is none of SHARES: any width keeps epsilon.
function windowOf(where, entry) {
  const known = has(entry, "categories") ? entry.mechanism === "krr" : has(SHARES, entry.mechanism);
  const { window = null, width } = entry;
  if (known && window === null) return null;
  if (known || !["snapped", "sliding"].includes(window) || typeof width !== "string" || !/^[1-9][0-9]{0,4}$/.test(width))
    refuse(`${where}.mechanism: must be one of ${Object.keys(SHARES).join(", ")}, for categories krr; use a table`);
  return [BigInt(width), window === "sliding"];
}

class Feature {
  constructor(where, given) {
    const words = isTable(given) && has(given, "categories");
    const entry = words
      ? table(where, given, NEEDED, ["categories", "missing", "outside"])
      : table(where, given, [...NEEDED, "lower", "upper"], ["bits", "quantise", "missing", "outside", "window"]);
    if (typeof entry.name !== "string" || typeof entry.mechanism !== "string")
      refuse(`${where}: name and mechanism must be texts; write the policy anew`);
    const window = windowOf(where, entry);
    this.name = entry.name;
    const points = whole(`${where}.points`, entry.points, 2, MOST_POINTS);
    this.missing = entry.missing ?? null;
    if (words) this.readCategories(where, entry, points);
    else this.readRange(where, entry, points);
    this.kernel = new TwoLevel(entry.mechanism, epsilonOf(`${where}.epsilon`, entry.epsilon), points, window);
    for (const part of ["low", "high", "width"])
      if (entry[part] !== String(this.kernel[part]))
        refuse(`${where}.${part}: is not what epsilon and points give; write the policy anew`);
  }

  readCategories(where, { categories, missing, outside }, points) {
    this.categories = categories;
    this.codes = codesOf(where, categories);
    if (this.codes.size !== points)
      refuse(`${where}.categories: must be ${points}, as points says; write the policy anew`);
    for (const instead of [missing, outside])
      if (instead !== undefined && instead !== null && !this.codes.has(key(instead)))
        refuse(`${where}: missing and outside must be among the categories; write the policy anew`);
    this.outside = outside ?? null;
  }

  readRange(where, entry, points) {
    [this.lower, this.upper] = endsOf(where, entry);
    if (has(entry, "bits") && 2 ** whole(`${where}.bits`, entry.bits, 1, 16) !== points)
      refuse(`${where}.points: must be 2^bits; write the policy anew`);
    this.quantise = has(entry, "quantise") ? whole(`${where}.quantise`, entry.quantise, 2, WHOLE) : null;
    if (has(entry, "outside") && entry.outside !== "clamp")
      refuse(`${where}.outside: must be 'clamp' for numbers; write the policy anew`);
    const missing = this.missing === null ? this.lower : number(`${where}.missing`, this.missing);
    if (!(missing >= this.lower && missing <= this.upper))
      refuse(`${where}.missing: must lie in the range; write the policy anew`);
  }

  index(value) { // total where the policy says what stands for what a value is not
    if (value === null || value === undefined || (typeof value === "number" && value !== value))
      value = this.instead("missing", this.missing);
    if (this.categories !== undefined) return this.code(value);
    if (typeof value !== "number") {
      if (this.missing === null) refuse(`${this.name}: the value is not a number; recode it`, "value");
      value = this.missing;
    }
    return placeOf(value, this.lower, this.upper, this.kernel.points);
  }

  code(value) {
    const plain = KINDS.includes(typeof value);
    if (plain && this.codes.has(key(value))) return this.codes.get(key(value));
    if (this.outside === null && !plain) refuse(`${this.name}: the value is no number, word or truth; recode it`, "value");
    return this.codes.get(key(this.instead("undeclared", this.outside)));
  }

  instead(what, value) {
    if (value === null) refuse(`${this.name}: the value is ${what}, and the policy refuses that; repair it`, what);
    return value;
  }

  value(y) {
    if (this.categories !== undefined) return this.categories[y];
    let steps = this.kernel.points - 1;
    if (this.quantise !== null) { // the nearest point of the coarser grid
      y = halfToEven((y / steps) * (this.quantise - 1));
      steps = this.quantise - 1;
    }
    return natural(y, steps, this.lower, this.upper);
  }

  spread(value, factor) { // about the centre; with a factor of 0 the centre
    const middle = (this.lower + this.upper) / 2;
    return factor ? middle + factor * (value - middle) : middle;
  }
}

// ---- A classifier's copy in whole numbers, proven before it is used: it must answer the same everywhere ----

// All sums stay below 2^53, so that numbers hold them exactly; adding up what is not negative tells where they would not.
const LEAF = -1, MOST_SHIFT = 52, MOST_COMBINATIONS = 65536;
const ALONE = ["layers", "trees", "tree"], EVERY = [...ALONE, "joint", "cells"];

function listed(where, given) {
  if (!Array.isArray(given)) refuse(`${where}: must be a list; write the policy anew`);
  return given;
}

function wholes(where, given, least = 1 - WHOLE, most = WHOLE - 1, count = null) {
  if (!Array.isArray(given) || (count !== null && given.length !== count))
    refuse(`${where}: must be a list of ${count === null ? "" : `${count} `}whole numbers; write it anew`);
  for (const one of given) whole(where, one, least, most);
  return given;
}

const rowsOf = (where, given, width, least, most) =>
  listed(where, given).map((row) => wholes(where, row, least, most, width));

function must(holds, sentence) {
  if (!holds) refuse(`${sentence}; write the policy anew`);
}

// The place of the largest (smallest) value, the first of equals.
const largest = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
const smallest = (values) => values.reduce((best, value, i) => (value < values[best] ? i : best), 0);
const sum = (values) => values.reduce((total, value) => total + value, 0);

// inputs: [{places, ordered}].  What comes back has region(places), and scores(places), which decide it.
export function readCopy(where, given, inputs, regions, kinds = EVERY) {
  const kind = isTable(given) && has(given, "kind") ? given.kind : null;
  if (!kinds.includes(kind)) refuse(`${where}.kind: must be one of ${kinds.join(", ")}; write the policy anew`);
  if (kind === "layers") return new IntegerReLU(where, given, inputs, regions);
  if (kind === "joint") return new Joint(where, given, inputs, regions);
  if (kind === "cells") return new Cells(where, given, inputs, regions);
  return new Trees(where, given, inputs, regions);
}

class IntegerReLU { // sums of places (1 for a word's position, else 0), through shifted rectifiers
  constructor(where, given, inputs, regions) {
    this.inputs = inputs;
    let reach = inputs.flatMap(({ places, ordered }) => (ordered ? [places - 1] : Array(places).fill(1)));
    const parts = listed(`${where}.layers`, table(where, given, ["kind", "layers"]).layers);
    this.layers = parts.map((part, n) => {
      const at = `${where}.layers[${n}]`, layer = table(at, part, ["weights", "biases", "shift"]);
      const biases = wholes(`${at}.biases`, layer.biases), weights = rowsOf(`${at}.weights`, layer.weights, reach.length);
      must(weights.length === biases.length && biases.length >= 1, `${at}: there must be one bias for each unit`);
      const scale = 2 ** whole(`${at}.shift`, layer.shift, 0, MOST_SHIFT);
      const sums = weights.map((row, unit) => sum(row.map((w, j) => Math.abs(w) * reach[j])) + Math.abs(biases[unit]));
      must(sums.every((total) => total < WHOLE), `${at}: a sum can reach 2^53, beyond which doubles round`);
      reach = sums.map((total) => Math.floor(total / scale));
      return { weights, biases, scale };
    });
    const last = this.layers[this.layers.length - 1];
    must(last !== undefined && last.scale === 1, `${where}.layers: there must be one at least, the last without a shift`);
    must(last.biases.length === regions, `${where}: must tell ${regions} regions apart`);
  }

  scores(places) {
    let values = this.inputs.flatMap(({ places: count, ordered }, j) =>
      ordered ? [places[j]] : range(count).map((word) => (places[j] === word ? 1 : 0)));
    this.layers.forEach(({ weights, biases, scale }, n) => {
      values = weights.map((row, unit) => row.reduce((total, w, j) => total + w * values[j], biases[unit]));
      if (n < this.layers.length - 1) values = values.map((value) => Math.floor(Math.max(value, 0) / scale));
    }); // shift operators would cut numbers to 32 bits
    return values;
  }

  region(places) {
    return largest(this.scores(places));
  }
}

class Trees { // sums of leaves' values; one tree can say the region itself
  constructor(where, given, inputs, regions) {
    const parts = ["kind", "feature", "threshold", "left", "right", "sets", "roots", "values"];
    const { kind, ...entry } = table(where, given, parts);
    this.says = kind === "tree";
    this.feature = wholes(`${where}.feature`, entry.feature, LEAF, inputs.length - 1);
    const nodes = this.feature.length;
    for (const part of ["threshold", "left", "right"])
      this[part] = wholes(`${where}.${part}`, entry[part], 1 - WHOLE, WHOLE - 1, nodes);
    this.roots = wholes(`${where}.roots`, entry.roots, 0, nodes - 1);
    this.values = rowsOf(`${where}.values`, entry.values, this.says ? 1 : regions);
    must(this.values.length === nodes && nodes >= 1 && this.roots.length >= 1,
      `${where}: must have nodes, and a root at least`);
    this.sets = this.readSets(`${where}.sets`, entry.sets, inputs);
    this.feature.forEach((column, node) => {
      const after = [this.left[node], this.right[node]].every((child) => node < child && child < nodes);
      must(column === LEAF || after, `${where}: children must come after their parents`);
    });
    this.proveValues(where, regions);
  }

  readSets(where, given, inputs) { // they stand where words are asked about, and there alone
    const named = isTable(given) && Object.keys(given).every((node) => /^(?:0|[1-9][0-9]{0,11})$/.test(node));
    must(named, `${where}: must be an object whose members are numbers of nodes`);
    const asks = this.feature.map((column) => column !== LEAF && !inputs[column].ordered);
    const nodes = Object.keys(given).map(Number);
    must(nodes.every((node) => asks[node] === true) && nodes.length === asks.filter(Boolean).length,
      `${where}: must stand where words are asked about`);
    return new Map(nodes.map((node) =>
      [node, new Set(wholes(where, given[node], 0, inputs[this.feature[node]].places - 1))]));
  }

  proveValues(where, regions) {
    const leaves = this.values.filter((_, node) => this.feature[node] === LEAF);
    if (this.says) {
      must(this.roots.length === 1, `${where}: one tree alone can name regions`);
      must(leaves.every(([region]) => region >= 0 && region < regions),
        `${where}: a leaf names a region that is not there`);
    } else {
      const most = leaves.flat().reduce((high, value) => Math.max(high, Math.abs(value)), 0);
      must(most * this.roots.length < WHOLE, `${where}: a sum can reach 2^53, beyond which doubles round`);
    }
  }

  scores(places) {
    const sums = this.values[0].map(() => 0);
    for (let node of this.roots) {
      while (this.feature[node] !== LEAF) {
        const at = places[this.feature[node]], own = this.sets.get(node);
        node = (own === undefined ? at <= this.threshold[node] : own.has(at)) ? this.left[node] : this.right[node];
      }
      this.values[node].forEach((value, k) => (sums[k] += value));
    }
    return sums;
  }

  region(places) {
    const scores = this.scores(places);
    return this.says ? scores[0] : largest(scores);
  }
}

class Joint { // a table says which region a combination of the parts' regions is
  constructor(where, given, inputs, regions) {
    const entry = table(where, given, ["kind", "counts", "parts", "table"]);
    this.counts = wholes(`${where}.counts`, entry.counts, 1, MOST_COMBINATIONS);
    const parts = listed(`${where}.parts`, entry.parts);
    must(parts.length === this.counts.length && parts.length >= 1, `${where}.counts: there must be one for each part`);
    this.parts = parts.map((part, i) => readCopy(`${where}.parts[${i}]`, part, inputs, this.counts[i], ALONE));
    const combinations = this.counts.reduce((product, count) => product * count, 1);
    must(combinations <= MOST_COMBINATIONS, `${where}: at most ${MOST_COMBINATIONS} combinations can be told`);
    this.table = wholes(`${where}.table`, entry.table, 0, regions - 1, combinations);
  }

  scores(places) {
    return this.parts.flatMap((part) => part.scores(places));
  }

  region(places) { // the first part's digit is the most significant
    return this.table[this.parts.reduce((at, part, i) => at * this.counts[i] + part.region(places), 0)];
  }
}

class Cells { // the nearest median among the cells of a record's region
  constructor(where, given, inputs, regions) {
    const entry = table(where, given, ["kind", "count", "part", "sensitive", "labels", "medians", "weights"]);
    const count = whole(`${where}.count`, entry.count, 1, regions);
    this.part = readCopy(`${where}.part`, entry.part, inputs, count, ALONE);
    const columns = wholes(`${where}.sensitive`, entry.sensitive, 0, inputs.length - 1);
    must(columns.length >= 1 && new Set(columns).size === columns.length,
      `${where}.sensitive: must name inputs, each once`);
    const labels = wholes(`${where}.labels`, entry.labels, 0, count - 1, regions);
    must(new Set(labels).size === count, `${where}.labels: every region must own at least one cell`);
    this.medians = rowsOf(`${where}.medians`, entry.medians, columns.length, 0);
    const fine = this.medians.every((row) => row.every((at, j) => at < inputs[columns[j]].places));
    must(fine && this.medians.length === regions, `${where}.medians: must be places, for each cell`);
    const weights = wholes(`${where}.weights`, entry.weights, 1, WHOLE - 1, columns.length);
    this.axes = columns.map((column, j) => ({ column, ordered: inputs[column].ordered, weight: weights[j] }));
    const longest = columns.map((column) => (inputs[column].ordered ? Math.max(1, inputs[column].places - 1) : 1));
    must(sum(weights.map((weight, j) => weight * longest[j])) < WHOLE, `${where}: a distance can reach 2^53`);
    this.own = range(count).map((label) => range(regions).filter((cell) => labels[cell] === label));
  }

  scores(places) { // the distances to the cells of the record's region
    return this.distances(places, this.own[this.part.region(places)]);
  }

  region(places) {
    const own = this.own[this.part.region(places)];
    return own[smallest(this.distances(places, own))];
  }

  distances(places, cells) { // in weighted steps; a word's weight where it differs
    return cells.map((cell) => this.axes.reduce((total, { column, ordered, weight }, j) => {
      const steps = Math.abs(places[column] - this.medians[cell][j]);
      return total + weight * (ordered ? steps : Math.min(steps, 1));
    }, 0));
  }
}

// ---- The tailored kind: a region, drawn once, and what stands for it ----

// What is within reach, what stands for it and the kernel between come from the policy and from what is public of the
// record.  Its sensitive values choose a row of that kernel, and nothing else.

const MOST_REGIONS = 256, MOST_INPUTS = 4096, MOST_LEAVES = 64, MOST_REPRESENTATIVES = 4096, MOST_PLACES = 2 ** 20;
const MOST_CONTEXTS = 1024; // that are remembered

class Input { // whatever a column holds to a place, a place to the value that leaves
  constructor(where, given) {
    const words = isTable(given) && has(given, "categories");
    const more = words ? ["categories", "outside"] : ["lower", "upper", "points"];
    const entry = table(where, given, ["name", "sensitive", "missing", ...more]);
    if (typeof entry.name !== "string" || typeof entry.sensitive !== "boolean")
      refuse(`${where}: name must be a text, and sensitive true or false; write the policy anew`);
    Object.assign(this, { name: entry.name, sensitive: entry.sensitive, ordered: !words });
    if (words) {
      this.kinds = entry.categories;
      this.codes = codesOf(where, entry.categories);
      this.places = whole(`${where}.categories`, this.codes.size, 2, MOST_PLACES);
      for (const part of ["missing", "outside"]) {
        if (!KINDS.includes(typeof entry[part]) || !this.codes.has(key(entry[part])))
          refuse(`${where}.${part}: must be one of the categories; write the policy anew`);
        this[part] = this.codes.get(key(entry[part]));
      }
      return;
    }
    this.places = whole(`${where}.points`, entry.points, 2, MOST_PLACES);
    [this.lower, this.upper] = endsOf(where, entry);
    const missing = number(`${where}.missing`, entry.missing);
    if (!(missing >= this.lower && missing <= this.upper))
      refuse(`${where}.missing: must lie in the range; write the policy anew`);
    this.missing = placeOf(missing, this.lower, this.upper, this.places);
  }

  place(value) { // never is one asked what it is like, nor refused
    if (this.ordered)
      return Number.isFinite(value) ? placeOf(value, this.lower, this.upper, this.places) : this.missing;
    if (value === null || value === undefined || (typeof value === "number" && Number.isNaN(value)))
      return this.missing;
    return (KINDS.includes(typeof value) ? this.codes.get(key(value)) : undefined) ?? this.outside;
  }

  value(at) {
    return this.ordered ? natural(at, this.places - 1, this.lower, this.upper) : this.kinds[at];
  }
}

function ordersOf(where, given, count) {
  const found = rowsOf(where, given, count, 0, count - 1);
  must(found.every((row) => new Set(row).size === count), `${where}: each must name all regions, each of them once`);
  return found;
}

class Response { // randomised response between what is within reach, or the likeliest of it by a prior
  constructor(entry, epsilon, count, inputs, hidden) {
    let most = count;
    if (entry.kind === "average") {
      this.orders = ordersOf("tailored.kernel.orders", entry.orders, count);
      const leaves = whole("tailored.kernel.orders", this.orders.length, 1, MOST_LEAVES);
      this.most = wholes("tailored.kernel.most", entry.most, 1, count, leaves);
      most = Math.max(...this.most);
      this.prior = readCopy("tailored.kernel.prior", entry.prior, inputs, leaves, ["tree"]);
      must(!this.prior.feature.some((column) => hidden.includes(column)),
        "tailored.kernel.prior: asks about a sensitive column; it may see public ones alone");
    }
    this.kernels = range(most - 1).map((i) => new TwoLevel("krr", epsilon, i + 2));
    for (const part of ["low", "high"]) {
      const given = listed(`tailored.kernel.${part}`, entry[part]);
      if (given.length !== most - 1 || !this.kernels.every((kernel, i) => given[i] === String(kernel[part])))
        refuse(`tailored.kernel.${part}: is not what epsilon gives; write the policy anew`);
    }
  }

  draw(seen, present, own, next) { // a region that is none of those drawn from takes the first's row
    if (this.prior !== undefined) {
      const leaf = this.prior.region(seen);
      present = this.orders[leaf].filter((region) => present.includes(region)).slice(0, this.most[leaf]);
    }
    if (present.length === 1) return present[0];
    return present[this.kernels[present.length - 2].outcome(Math.max(present.indexOf(own), 0), next())];
  }
}

class Gain { // a kernel between all regions; what cannot be sent is replaced by what stands for it
  constructor(entry, epsilon, count) {
    const given = listed("tailored.kernel.rows", entry.rows), weight = /^(?:0|[1-9][0-9]{0,19})$/;
    if (given.length !== count || !given.every((row) => Array.isArray(row) && row.length === count))
      refuse(`tailored.kernel.rows: must be ${count} lists of ${count} weights; write the policy anew`);
    if (!given.every((row) => row.every((one) => typeof one === "string" && weight.test(one))))
      refuse("tailored.kernel.rows: weights must be texts of whole numbers; write the policy anew");
    this.rows = given.map((row) => row.map(BigInt));
    this.prove(expBelow(epsilon));
    this.instead = ordersOf("tailored.kernel.instead", entry.instead, count);
    must(this.instead.length === count, `tailored.kernel.instead: must be ${count} orders`);
  }

  prove([p, q]) {
    for (const row of this.rows)
      must(row.reduce((a, b) => a + b) === WORD, "tailored.kernel.rows: a row does not add up to 2^64");
    for (let y = 0; y < this.rows.length; y++) {
      let [low, high] = [WORD, 0n]; // an empty column is empty in all rows
      for (const row of this.rows) {
        if (row[y] < low) low = row[y];
        if (row[y] > high) high = row[y];
      }
      must(high * q <= p * low, "tailored.kernel.rows: two weights differ by more than e^epsilon");
    }
  }

  draw(seen, present, own, next) {
    if (present.length === 1) return present[0];
    const folded = present.map(() => 0n);
    this.rows[present.includes(own) ? own : present[0]].forEach((weight, region) => {
      const taking = [region, ...this.instead[region]].find((one) => present.includes(one));
      folded[present.indexOf(taking)] += weight;
    });
    return present[alias(folded, next())];
  }
}

// The outcome of a word: the library's table of columns of equal capacity, filled in its order.
function alias(weights, word) {
  let bits = 1;
  while (2 ** bits < weights.length) bits++;
  const shift = BigInt(64 - bits), capacity = 1n << shift, left = [...weights], columns = range(2 ** bits);
  while (left.length < columns.length) left.push(0n);
  const kept = left.map(() => 0n), other = [...columns];
  const short = columns.filter((j) => left[j] < capacity), long = columns.filter((j) => left[j] > capacity);
  while (short.length) {
    const column = short.pop(), donor = long[long.length - 1];
    kept[column] = left[column];
    other[column] = donor;
    left[donor] -= capacity - left[column];
    if (left[donor] <= capacity) {
      long.pop();
      if (left[donor] < capacity) short.push(donor);
    }
  }
  const column = Number(word >> shift);
  return (word & (capacity - 1n)) < kept[column] ? column : other[column];
}

function randomiserOf(given, epsilon, count, inputs, hidden) {
  const kind = isTable(given) && has(given, "kind") ? given.kind : null, where = "tailored.kernel";
  if (kind === "gain") return new Gain(table(where, given, ["kind", "rows", "instead"]), epsilon, count);
  if (kind !== "worst" && kind !== "average")
    refuse(`${where}.kind: must be worst, average or gain; write the policy anew`);
  const more = kind === "average" ? ["prior", "orders", "most"] : [];
  return new Response(table(where, given, ["kind", "low", "high", ...more]), epsilon, count, inputs, hidden);
}

class Tailored {
  #standing; #default; #draw; #copy; #randomiser; #hidden; #reach = new Map();

  constructor(given) {
    const entry = table("tailored", given,
      ["epsilon", "inputs", "kernel", "representatives", "default", "draw", "copy"]);
    const inputs = listed("tailored.inputs", entry.inputs);
    if (inputs.length < 1 || inputs.length > MOST_INPUTS)
      refuse(`tailored.inputs: must be 1 to ${MOST_INPUTS}; write the policy anew`);
    this.inputs = inputs.map((one, i) => new Input(`tailored.inputs[${i}]`, one));
    this.names = this.inputs.map(({ name }) => name);
    this.#hidden = range(inputs.length).filter((i) => this.inputs[i].sensitive);
    this.sensitive = this.#hidden.map((i) => this.names[i]);
    if (!this.#hidden.length || new Set(this.names).size < inputs.length)
      refuse("tailored.inputs: one must be sensitive, and names differ; write the policy anew");
    const standing = listed("tailored.representatives", entry.representatives);
    if (standing.length < 1 || standing.length > MOST_REGIONS)
      refuse(`tailored.representatives: must be of 1 to ${MOST_REGIONS} regions; write it anew`);
    this.#standing = standing.map((part, i) => this.#places(`tailored.representatives[${i}]`, part));
    [this.#default] = this.#places("tailored.default", [entry.default]);
    if (typeof entry.draw !== "boolean") refuse("tailored.draw: must be true or false; write the policy anew");
    this.#draw = entry.draw;
    this.#copy = readCopy("tailored.copy", entry.copy, this.inputs, standing.length);
    const epsilon = epsilonOf("tailored.epsilon", entry.epsilon);
    this.#randomiser = randomiserOf(entry.kernel, epsilon, standing.length, this.inputs, this.#hidden);
  }

  get words() { // where none is drawn anew; at most
    return this.#draw ? 2 : 1;
  }

  places(values) { // of a record, whatever it holds; what is absent is missing
    return this.inputs.map((one) => one.place(values.get(one.name)));
  }

  seen(own, released) { // all that may choose what is within reach
    return this.inputs.map((one, i) => (released.has(one.name) ? one.place(released.get(one.name)) : own[i]));
  }

  sent(own, seen, next) { // what is sent in place of the sensitive columns
    const known = seen.map((at, i) => (this.inputs[i].sensitive ? 0 : at)), standing = this.#within(known);
    const present = range(standing.length).filter((region) => standing[region] >= 0);
    let row = this.#default;
    if (present.length) {
      const region = this.#randomiser.draw(known, present, this.#copy.region(own), next);
      row = this.#standing[region][this.#number(known, region, standing[region], next)];
    }
    return this.#hidden.map((column, j) => [this.names[column], this.inputs[column].value(row[j])]);
  }

  #within(known) { // the first representative of each region that the copy takes for one there, else -1
    const context = known.join();
    if (!this.#reach.has(context)) {
      if (this.#reach.size >= MOST_CONTEXTS) this.#reach.clear();
      this.#reach.set(context, this.#standing.map((rows, region) =>
        rows.findIndex((row) => this.#stands(known, row, region))));
    }
    return this.#reach.get(context);
  }

  #stands(known, row, region) {
    const tried = [...known];
    this.#hidden.forEach((column, j) => (tried[column] = row[j]));
    return this.#copy.region(tried) === region;
  }

  #number(known, region, first, next) { // with draw, all that stand there are equally likely
    if (!this.#draw) return first;
    const rows = this.#standing[region], fine = range(rows.length).filter((n) => this.#stands(known, rows[n], region));
    const count = BigInt(fine.length), most = WORD - (WORD % count);
    let word = next();
    while (word >= most) word = next(); // beyond the last multiple of their number
    return fine[Number(word % count)];
  }

  #places(where, given) {
    const found = rowsOf(where, given, this.#hidden.length, 0, MOST_PLACES);
    if (found.length > MOST_REPRESENTATIVES)
      refuse(`${where}: must be at most ${MOST_REPRESENTATIVES}; write the policy anew`);
    must(found.every((row) => row.every((at, j) => at < this.inputs[this.#hidden[j]].places)),
      `${where}: names a place that is not there`);
    return found;
  }
}

// ---- One record ----

// A record that was drawn with words somebody knows: NOT PRIVATE, for tests alone.
export class NotPrivate {
  get private() {
    return false;
  }
}

function checkPassing(name, value) { // what is nested could hold anything
  const plain = value === null || typeof value === "string" || typeof value === "boolean";
  if (!plain && !Number.isFinite(value))
    refuse(`${name}: passes, but is no plain number, word or truth; send one value`, "value");
}

export class Client {
  #features; #perturbed; #passed; #known; #public; #kept = 0; #scaled = false;
  #tailored = null;
  #lookedAt = new Set();

  // policy: the text of policy.json
  constructor(policy) {
    this.fingerprint = fingerprintOf(policy);
    const document = table("policy", read(policy), ["fingerprint", "format", "features", "others", "file"],
      ["sample", "tailored"]);
    if (document.format !== FORMAT)
      refuse(`format: this client reads ${FORMAT}; write the policy anew, or use a newer client`);
    if (typeof document.file !== "string" || !/^[0-9a-f]{64}$/.test(document.file))
      refuse("file: must be 64 hexadecimal digits; write the policy anew");
    const given = document.features, least = has(document, "tailored") ? 0 : 1;
    if (!Array.isArray(given) || given.length < least || given.length > MOST_FEATURES)
      refuse(`features: must be a list of ${least} to ${MOST_FEATURES}; write the policy anew`);
    this.#features = given.map((entry, i) => new Feature(`features[${i}]`, entry));
    this.#perturbed = new Set(this.#features.map((feature) => feature.name));
    const others = table("others", document.others, ["pass", "drop"]);
    this.#passed = texts("others.pass", others.pass);
    if (has(document, "tailored")) this.#tailored = new Tailored(document.tailored);
    const sensitive = this.#tailored === null ? [] : this.#tailored.sensitive;
    const dropped = texts("others.drop", others.drop);
    const names = [...given.map((entry) => entry.name), ...sensitive, ...this.#passed, ...dropped];
    this.#known = new Set(names);
    if (this.#known.size < names.length)
      refuse("features, tailored, others: a name stands twice; write the policy anew");
    if (this.#tailored !== null) this.#lookedAt = new Set(this.#tailored.names);
    this.#public = [...this.#lookedAt].filter((name) => !this.#perturbed.has(name) && !sensitive.includes(name));
    if (!this.#public.every((name) => this.#known.has(name)))
      refuse("tailored.inputs: public ones must be under others.pass or others.drop; write it anew");
    if (has(document, "sample") && this.#tailored !== null)
      refuse("sample: a tailored policy cannot sample its features too; write the policy anew");
    if (has(document, "sample")) this.#readSample(document.sample);
  }

  #readSample(given) {
    const sample = table("sample", given, ["features", "unsampled"]);
    this.#scaled = sample.unsampled === "scaled";
    if (!this.#scaled && sample.unsampled !== "missing")
      refuse("sample.unsampled: must be 'missing' or 'scaled'; write the policy anew");
    if (this.#scaled && this.#features.some((feature) => feature.categories !== undefined))
      refuse("sample.unsampled: categories cannot be scaled; write the policy anew");
    this.#kept = whole("sample.features", sample.features, 1, this.#features.length);
  }

  // How many words of 64 bits a record takes; a tailored one at most, where none is drawn anew.
  get words() {
    return this.#features.length * (this.#kept ? 2 : 1) + (this.#tailored === null ? 0 : this.#tailored.words);
  }

  // What the policy passes of a record, in its order, then the features, drawn afresh, in the policy's.
  perturb(record) {
    const words = new BigUint64Array(this.words);
    for (let at = 0; at < words.length; at += WORDS_AT_ONCE)
      ENTROPY.getRandomValues(words.subarray(at, at + WORDS_AT_ONCE));
    return Object.fromEntries(this.#released(record, words, () => ENTROPY.getRandomValues(new BigUint64Array(1))[0]));
  }

  // The same for given words (BigInt, as many as `words` says; of a tailored policy more, should one be drawn anew): NOT
  // PRIVATE, for tests alone.
  replay(record, words) {
    const given = [...words];
    const fine = given.every((word) => typeof word === "bigint" && word >= 0n && word < WORD);
    const fits = given.length === this.words || (this.#tailored !== null && given.length > this.words);
    if (!fits || !fine)
      refuse(`words: must be ${this.words} whole numbers from 0 to 2^64 - 1; give as many`, "words");
    const more = () => refuse("words: one was drawn anew, and there are no more; give more", "words");
    return Object.setPrototypeOf(Object.fromEntries(this.#released(record, given, more)), NotPrivate.prototype);
  }

  #released(record, words, more) {
    const [values, raw, lookedAt] = this.#read(record), features = this.#features;
    const inputs = features.map((feature) => feature.index(raw.get(feature.name))); // all, before a draw
    const chosen = this.#chosen(words), first = this.#kept ? features.length : 0;
    features.forEach((feature, position) => {
      let value = feature.value(feature.kernel.outcome(inputs[position], words[first + position]));
      if (this.#scaled) value = feature.spread(value, chosen.has(position) ? features.length / this.#kept : 0);
      else if (chosen !== null && !chosen.has(position)) value = null;
      values.set(feature.name, value);
    });
    if (this.#tailored !== null) {
      const true_ = this.#tailored.places(lookedAt), released = new Map();
      for (const name of this.#perturbed) if (this.#lookedAt.has(name)) released.set(name, values.get(name));
      let at = features.length;
      const next = () => (at < words.length ? words[at++] : more());
      for (const [name, value] of this.#tailored.sent(true_, this.#tailored.seen(true_, released), next))
        values.set(name, value);
    }
    return values;
  }

  #chosen(words) { // the smallest words choose, the first of equals; the record is not looked at
    if (!this.#kept) return null;
    const order = this.#features.map((_, position) => position);
    order.sort((a, b) => (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b));
    return new Set(order.slice(0, this.#kept));
  }

  // What passes of a record, its features, and what a tailored policy sees of it, each value read once.  Only what passes
  // keeps a place: where the record held its features, or whether it did, must not show.
  #read(record) {
    if (!isTable(record)) refuse("the record must be an object from name to value; give one record", "record");
    const passing = new Map(), raw = new Map(), lookedAt = new Map();
    for (const [name, value] of Object.entries(record)) {
      if (!this.#known.has(name)) // it could be a raw value
        refuse(`the record has a member${NAME.test(name) ? ` '${name}'` : ""} that the policy does not name; leave it out, ` +
          "or name it under pass.columns or pass.drop", "unknown");
      if (this.#lookedAt.has(name)) lookedAt.set(name, value);
      if (this.#perturbed.has(name)) raw.set(name, value);
      else if (this.#passed.has(name)) {
        checkPassing(name, value);
        passing.set(name, value);
      }
    }
    for (const { name, missing } of this.#features)
      if (!raw.has(name) && missing === null)
        refuse(`the record lacks '${name}', which the policy perturbs; send it`, "lacking");
    for (const name of this.#public)
      if (!lookedAt.has(name)) refuse(`the record lacks '${name}', which the policy looks at; send it`, "lacking");
    return [passing, raw, lookedAt];
  }
}
