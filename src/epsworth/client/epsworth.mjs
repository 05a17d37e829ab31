// The device's door in JavaScript: one record at a time, for browsers and Node, the same to the bit as epsworth.client.
//
//   import { Client } from "./epsworth.mjs";
//   const client = new Client(await (await fetch("policy.json")).text());
//   const released = client.perturb({ age: 31 });
//
// Draws and what decides them are whole numbers (BigInt); doubles only place a value on its public grid, and back.

const FORMAT = "epsworth-client-1";
const LONGEST = 2 ** 26, DEPTH = 16, DIGITS = 40, WHOLE = 2 ** 53;
const WORD = 1n << 64n, PRECISION = 256n; // fraction bits of partial sums of e^x
const MOST_POINTS = 65536, MOST_FEATURES = 4096;
const WIDE = 2 ** 900; // products of ends beyond it are taken of their 2^-32
const ENTROPY = globalThis.crypto ?? (await import("node:crypto")).webcrypto; // older Node has it there alone
const WORDS_AT_ONCE = 8192; // more are refused by getRandomValues

function refuse(sentence) {
  throw new Error(sentence);
}

// ---- The policy's JSON, strictly read ----

const TOKEN = /"[^"\\]*(?:\\[^][^"\\]*)*"(\s*:)?|[[{]|[\]}]|-?[0-9][0-9.eE+-]*/g;

function read(text) {
  if (typeof text !== "string") refuse("the policy must be a text of JSON; read the file first");
  if (text.length > LONGEST) refuse("the policy is longer than 64 MiB; write it anew");
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
}; // how much of the grid the window covers, about, and whether it moves linearly

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
  constructor(mechanism, epsilon, points) {
    const [share, affine] = SHARES[mechanism], P = BigInt(points), [n, d] = share(epsilon);
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

// ---- One feature ----

const NEEDED = ["name", "mechanism", "epsilon", "points", "low", "high", "width"];
const KINDS = ["string", "number", "boolean"];
const key = (value) => (typeof value === "boolean" ? Number(value) : value); // a truth equals its number

function halfToEven(v) {
  const below = Math.floor(v), rest = v - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

class Feature {
  constructor(where, given) {
    const words = isTable(given) && has(given, "categories");
    const entry = words
      ? table(where, given, NEEDED, ["categories", "missing", "outside"])
      : table(where, given, [...NEEDED, "lower", "upper"], ["bits", "quantise", "missing", "outside"]);
    if (typeof entry.name !== "string" || typeof entry.mechanism !== "string")
      refuse(`${where}: name and mechanism must be texts; write the policy anew`);
    if (!has(SHARES, entry.mechanism) || (words && entry.mechanism !== "krr"))
      refuse(`${where}.mechanism: must be one of ${Object.keys(SHARES).join(", ")}, for categories krr; use a table`);
    this.name = entry.name;
    const points = whole(`${where}.points`, entry.points, 2, MOST_POINTS);
    this.missing = entry.missing ?? null;
    if (words) this.readCategories(where, entry, points);
    else this.readRange(where, entry, points);
    if (typeof entry.epsilon !== "string" || !EPSILON.test(entry.epsilon))
      refuse(`${where}.epsilon: must be a text of digits, such as '0.5'; write the policy anew`);
    this.kernel = new TwoLevel(entry.mechanism, stated(entry.epsilon), points);
    for (const part of ["low", "high", "width"])
      if (entry[part] !== String(this.kernel[part]))
        refuse(`${where}.${part}: is not what epsilon and points give; write the policy anew`);
  }

  readCategories(where, { categories, missing, outside }, points) {
    if (!Array.isArray(categories) || !categories.every((one) => KINDS.includes(typeof one)))
      refuse(`${where}.categories: must be a list of texts, numbers and truths; write the policy anew`);
    this.categories = categories;
    this.codes = new Map(categories.map((one, i) => [key(one), i]));
    if (this.codes.size !== points || categories.length !== points)
      refuse(`${where}.categories: must be ${points} different ones, as points says; write it anew`);
    for (const instead of [missing, outside])
      if (instead !== undefined && instead !== null && !this.codes.has(key(instead)))
        refuse(`${where}: missing and outside must be among the categories; write the policy anew`);
    this.outside = outside ?? null;
  }

  readRange(where, entry, points) {
    this.lower = number(`${where}.lower`, entry.lower);
    this.upper = number(`${where}.upper`, entry.upper);
    if (!(this.lower < this.upper && Number.isFinite(this.upper - this.lower)))
      refuse(`${where}: upper must lie above lower, and not too far; write the policy anew`);
    if (has(entry, "bits") && 2 ** whole(`${where}.bits`, entry.bits, 1, 16) !== points)
      refuse(`${where}.points: must be 2^bits; write the policy anew`);
    this.quantise = has(entry, "quantise") ? whole(`${where}.quantise`, entry.quantise, 2, WHOLE) : null;
    if (has(entry, "outside") && entry.outside !== "clamp")
      refuse(`${where}.outside: must be 'clamp' for numbers; write the policy anew`);
    const missing = this.missing === null ? this.lower : number(`${where}.missing`, this.missing);
    if (!(missing >= this.lower && missing <= this.upper))
      refuse(`${where}.missing: must lie in the range; write the policy anew`);
  }

  index(value) {
    if (value === null || (typeof value === "number" && value !== value)) value = this.instead("missing", this.missing);
    if (this.categories !== undefined) {
      if (!KINDS.includes(typeof value)) refuse(`${this.name}: the value is no number, word or truth; recode it`);
      if (!this.codes.has(key(value))) value = this.instead("undeclared", this.outside);
      return this.codes.get(key(value));
    }
    if (typeof value !== "number") refuse(`${this.name}: the value is not a number; recode it`);
    const clipped = Math.min(Math.max(value, this.lower), this.upper);
    return halfToEven(((clipped - this.lower) / (this.upper - this.lower)) * (this.kernel.points - 1));
  }

  instead(what, value) {
    if (value === null) refuse(`${this.name}: the value is ${what}, and the policy refuses that; repair it`);
    return value;
  }

  value(y) {
    if (this.categories !== undefined) return this.categories[y];
    let steps = this.kernel.points - 1;
    if (this.quantise !== null) { // the nearest point of the coarser grid
      y = halfToEven((y / steps) * (this.quantise - 1));
      steps = this.quantise - 1;
    }
    const scale = Math.max(Math.abs(this.lower), Math.abs(this.upper)) > WIDE ? 2 ** -32 : 1;
    const lower = scale * this.lower, upper = scale * this.upper;
    if (y === 0 || y === steps) return (y ? upper : lower) / scale;
    return Math.min(Math.max((lower * (steps - y) + upper * y) / steps, lower), upper) / scale;
  }

  spread(value, factor) { // about the centre; with a factor of 0 the centre
    const middle = (this.lower + this.upper) / 2;
    return factor ? middle + factor * (value - middle) : middle;
  }
}

// ---- One record ----

// A record that was drawn with words somebody knows: NOT PRIVATE, for tests alone.
export class NotPrivate {
  get private() {
    return false;
  }
}

function passing(name, value) { // what is nested could hold anything
  const plain = value === null || typeof value === "string" || typeof value === "boolean";
  if (!plain && !Number.isFinite(value))
    refuse(`${name}: passes, but is no plain number, word or truth; send one value`);
  return value;
}

export class Client {
  #features; #perturbed; #passed; #dropped; #kept = 0; #scaled = false;

  // policy: the text of policy.json
  constructor(policy) {
    const document = table("policy", read(policy), ["format", "fingerprint", "features", "others"], ["sample"]);
    if (document.format !== FORMAT)
      refuse(`format: this client reads ${FORMAT}; write the policy anew, or use a newer client`);
    if (typeof document.fingerprint !== "string" || !/^[0-9a-f]{64}$/.test(document.fingerprint))
      refuse("fingerprint: must be 64 hexadecimal digits; write the policy anew");
    this.fingerprint = document.fingerprint;
    const given = document.features;
    if (!Array.isArray(given) || given.length < 1 || given.length > MOST_FEATURES)
      refuse(`features: must be a list of 1 to ${MOST_FEATURES}; write the policy anew`);
    this.#features = given.map((entry, i) => new Feature(`features[${i}]`, entry));
    this.#perturbed = new Set(this.#features.map((feature) => feature.name));
    const others = table("others", document.others, ["pass", "drop"]);
    this.#passed = texts("others.pass", others.pass);
    this.#dropped = texts("others.drop", others.drop);
    const names = [...this.#perturbed, ...this.#passed, ...this.#dropped];
    if (new Set(names).size < given.length + this.#passed.size + this.#dropped.size)
      refuse("features, others: a name stands twice; write the policy anew");
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

  // How many words of 64 bits a record takes.
  get words() {
    return this.#features.length * (this.#kept ? 2 : 1);
  }

  // The record with its features drawn, and of the rest what the policy passes; fresh on every call.
  perturb(record) {
    const words = new BigUint64Array(this.words);
    for (let at = 0; at < words.length; at += WORDS_AT_ONCE)
      ENTROPY.getRandomValues(words.subarray(at, at + WORDS_AT_ONCE));
    return Object.fromEntries(this.#released(record, words));
  }

  // The same for given words (BigInt, as many as `words` says): NOT PRIVATE, for tests alone.
  replay(record, words) {
    const given = [...words];
    const fine = given.every((word) => typeof word === "bigint" && word >= 0n && word < WORD);
    if (given.length !== this.words || !fine)
      refuse(`words: must be ${this.words} whole numbers from 0 to 2^64 - 1; give as many`);
    return Object.setPrototypeOf(Object.fromEntries(this.#released(record, given)), NotPrivate.prototype);
  }

  #released(record, words) {
    const values = this.#plain(record), features = this.#features;
    const inputs = features.map((feature) => feature.index(values.get(feature.name))); // all, before a draw
    const chosen = this.#chosen(words), first = this.#kept ? features.length : 0;
    features.forEach((feature, position) => {
      let value = feature.value(feature.kernel.outcome(inputs[position], words[first + position]));
      if (this.#scaled) value = feature.spread(value, chosen.has(position) ? features.length / this.#kept : 0);
      else if (chosen !== null && !chosen.has(position)) value = null;
      values.set(feature.name, value);
    });
    return values;
  }

  #chosen(words) { // the smallest words choose, the first of equals; the record is not looked at
    if (!this.#kept) return null;
    const order = this.#features.map((_, position) => position);
    order.sort((a, b) => (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b));
    return new Set(order.slice(0, this.#kept));
  }

  #plain(record) { // what stays of a record, read once; what is not declared could be a raw value
    if (!isTable(record)) refuse("the record must be an object from name to value; give one record");
    const values = new Map();
    for (const [name, value] of Object.entries(record)) {
      if (this.#perturbed.has(name)) values.set(name, value);
      else if (this.#passed.has(name)) values.set(name, passing(name, value));
      else if (!this.#dropped.has(name))
        refuse("the record has a member that the policy does not name; leave it out");
    }
    for (const { name } of this.#features)
      if (!values.has(name)) refuse(`the record lacks '${name}', which the policy perturbs; send it`);
    return values;
  }
}
