// What moves on a page, and what it offers as files. Everything is looked up: Python has chosen and rounded for every
// stop of a slider. The page can be read without this script; it shows then what it shows first. Everything from a file
// goes through textContent, never into markup.

"use strict";

const $ = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const data = JSON.parse($("numbers").textContent);

/** Change an element's text only where it differs: readers aloud are told of changes. */
const setText = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

/** Print a slider's value. */
function describe(slider, text) {
  setText($(`${slider.id}-shown`), text);
  slider.setAttribute("aria-valuetext", text);
}

/** Bind a slider to the texts, places and widths that the page holds for each of its stops. */
function bind(slider, { says, moves, widths }) {
  const show = () => {
    const at = Number(slider.value);
    for (const [id, texts] of Object.entries(says)) setText($(id), texts[at]);
    for (const [id, places] of Object.entries(moves)) $(id).setAttribute("transform", `translate(${places[at]})`);
    for (const [id, shares] of Object.entries(widths)) $(id).setAttribute("width", shares[at]);
    describe(slider, $(`${slider.id}-shown`).textContent);
  };
  slider.addEventListener("input", show);
  show();
}

/** Let readers ask curves for another target, epsilon or prior. Points are [mechanism, epsilon]. */
function explore() {
  const { digits, words } = data, target = $("target"), stop = $("stop"), prior = $("prior"), back = $("back");
  const views = all(".view"), start = Number(stop.value);
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const viewNumber = () => Number(document.querySelector("input[name=view]:checked")?.value ?? 0);
  let requested = data.asked; // a share of the labels: by whoever made the page, or by its reader
  const goal = () => data.targets[Number(target.value)];
  const promise = ([m, e]) => data.promises[data.promised[m][e]];
  const recommended = (view) => requested ? view.chosen[Number(target.value)] : null;
  const same = (one, other) => one !== null && one[0] === other[0] && one[1] === other[1];

  /** Print a share that is stored as a whole number of 10^-digits, in per cent. */
  function percent(units) {
    const text = String(units).padStart(digits - 1, "0"), cut = text.length - (digits - 2);
    return `${text.slice(0, cut)}.${text.slice(cut)}\u00a0%`;
  }

  /** Return the stop of the recommendation, or of what comes closest to the target. */
  const home = (view) => data.stops.indexOf(promise(recommended(view) ?? view.top).epsilon);

  /** Return the current point: the recommendation at its own epsilon, else the highest guarantee there. */
  function currentPoint(view) {
    const point = recommended(view) ?? view.top, at = Number(stop.value);
    return promise(point).epsilon === data.stops[at] ? point : view.best[at] ?? point;
  }

  function sentence(view, point) {
    const [m, e] = point, met = view.lower[m][e] >= goal(), chosen = recommended(view);
    const unknown = view.lower[m][e] === 0 && view.upper[m][e] === 10 ** digits;
    const costly = met && data.accepted[m][e] !== "1";
    const without = chosen === null ? (same(view.top, point) ? "none" : "never") : met ? "enough" : "short";
    const kind = !requested ? "most" : same(chosen, point) ? "use" : costly ? "costly" : without;
    return fill(words[unknown ? "unknown" : kind], {
      ...words, name: data.names[m], total: promise(point).shown, where: view.where, subject: view.subject,
      lower: percent(view.lower[m][e]), target: percent(goal()),
      best: chosen === null ? "" : data.names[chosen[0]], least: chosen === null ? "" : promise(chosen).shown,
    });
  }

  /** Tell what every mechanism does within the budget, one row each. */
  function fillTable(view, at, chosen) {
    const people = view.average ? data.population[view.of] : undefined;
    document.querySelector(".now").classList.toggle("nobody", !people);
    if ($("people")) $("people").hidden = !view.average;
    all(".now tbody tr").forEach((row, m) => {
      const cells = all("td", row), e = at[m];
      row.classList.toggle("chosen", m === chosen[0]);
      if (m === chosen[0]) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      if (e === null) return cells.forEach((cell) => setText(cell, "–"));
      const lower = view.lower[m][e], upper = view.upper[m][e];
      const word = lower >= goal() ? "enough" : upper < goal() ? "short" : "open";
      const among = people ? `${percent(people.lower[m][e]).slice(0, -2)}–${percent(people.upper[m][e])}` : "–";
      const texts = [promise([m, e]).shown, percent(lower), percent(upper), among, words[`${word}_word`]];
      cells.forEach((cell, i) => setText(cell, texts[i]));
    });
  }

  /** Move in the pictures of a view: the target, the epsilon, a point on every curve. */
  function movePictures(number, at, chosen) {
    const frame = data.frames[number], view = data.views[number], scale = frame.log ? Math.log : (v) => v;
    const x = (total) => frame.left + frame.span * (frame.last > frame.first
      ? (scale(total) - scale(frame.first)) / (scale(frame.last) - scale(frame.first)) : 0.5);
    const y = (units) => frame.top + frame.tall * (1 - (Math.max(units / 10 ** digits, frame.low) - frame.low) / (1 - frame.low));
    all(".target", views[number]).forEach((one) => {
      one.setAttribute("transform", `translate(0 ${y(goal())})`);
      one.querySelector("text").setAttribute("y", y(goal()) >= frame.top + 18 ? -5 : 14); // its name stays within
    });
    const place = `translate(${x(data.stops[Number(stop.value)])} 0)`;
    all(".cursor", views[number]).forEach((one) => one.setAttribute("transform", place));
    all(".point", views[number]).forEach((one) => {
      const m = Number(one.dataset.m), e = at[m];
      one.classList.toggle("chosen", m === chosen[0]);
      one.setAttribute("visibility", e === null ? "hidden" : "visible");
      if (e !== null) one.setAttribute("transform", `translate(${x(promise([m, e]).epsilon)} ${y(view.lower[m][e])})`);
    });
    all(".panel.alone", views[number]).forEach((one) => one.classList.toggle("chosen", Number(one.dataset.of) === chosen[0]));
  }

  function fillRecords(view, point) {
    const rows = all(".served tbody tr");
    if (!rows.length) return;
    const [m, e] = point, mark = document.createElement("bdi");
    mark.textContent = data.names[m];
    $("served").replaceChildren("By ", mark, ` at ε\u00a0=\u00a0${promise(point).shown} per record.`);
    const worst = data.views.find((one) => one.of === view.of && one.worst).lower;
    [worst, ...data.shares[view.of]].forEach((whole, i) => {
      setText(rows[i].cells[1], percent(whole[m][e]));
      rows[i].querySelector("rect").setAttribute("width", whole[m][e] / 10 ** (digits - 2));
    });
    const pairs = data.worst[m][e];
    all(".worst tbody tr").forEach((row, i) => {
      const [record, label] = data.records[pairs[2 * i]];
      setText(row.querySelector("th"), String(record));
      setText(row.querySelector("bdi"), label);
      setText(row.querySelector("td:last-child"), percent(pairs[2 * i + 1]));
    });
  }

  /** Tell what an observer may know: so much before, so much after. */
  function fillObserver(point) {
    const guarantee = promise(point), at = Number(prior.value), after = guarantee.after[at], before = data.priors[at];
    const kind = after === data.certain ? "certain" : guarantee.delta > 0 ? "weaker" : "pure";
    setText($("observer"), fill(words[kind], { prior: before, after, total: guarantee.shown, delta: guarantee.delta_shown }));
    describe(prior, before);
    [before, after].forEach((share, i) => $(`knows-${i}`).setAttribute("width", parseFloat(share)));
    setText($("fact-after"), guarantee.after[data.even]);
  }

  function show() {
    const number = viewNumber(), view = data.views[number], index = Number(stop.value), point = currentPoint(view);
    const [m, e] = point, guarantee = promise(point), at = [...data.at[index]], total = data.stops_shown[index];
    if (guarantee.epsilon === data.stops[index]) at[m] = e;
    views.forEach((one, i) => { one.hidden = i !== number; });
    setText($("sentence"), sentence(view, point));
    const good = view.lower[m][e] >= goal() && data.accepted[m][e] === "1";
    document.querySelector("section.decision").classList.toggle("no", requested && !good);
    document.querySelector("main").classList.toggle("unasked", !requested);
    setText($("fact-total"), guarantee.shown);
    setText($("fact-lower"), percent(view.lower[m][e]));
    describe(target, percent(goal()));
    describe(stop, total);
    const idle = index === home(view) && goal() === data.target && number === 0 && requested === data.asked;
    if (!(idle && document.activeElement === back)) back.disabled = idle; // focus is never lost under a reader's hands
    const cap = data.caps[index], free = cap === 10 ** digits;
    setText($("cap"), fill(words[free ? "free" : "cap"], { total, cap: percent(cap), below: percent(cap - 1) }));
    fillTable(view, at, point);
    movePictures(number, at, point);
    fillRecords(view, point);
    fillObserver(point);
  }

  const goHome = () => { stop.value = home(data.views[viewNumber()]); show(); };
  target.addEventListener("input", () => { requested = true; });
  for (const one of [target, ...all("input[name=view]")]) one.addEventListener("input", goHome);
  for (const one of [stop, prior]) one.addEventListener("input", show);
  back.addEventListener("click", () => {
    const first = document.querySelector("input[name=view][value='0']");
    if (first) first.checked = true;
    requested = data.asked;
    target.value = data.targets.indexOf(data.target);
    stop.value = start;
    show();
  });
  show();
}

// ---- files

/** Quote a cell; what a spreadsheet would take for a formula, and is no number, gets a space before it. */
function quoted(text) {
  const risky = /^[=+\-@\t]/.test(text) && !/^[-+]?[\d.,]+$/.test(text);
  return `"${(risky ? " " : "") + text.replaceAll('"', '""')}"`;
}

/** Return the points of the curves, one a row. */
function allPoints() {
  const share = (units) => Number(`${units}e-${data.digits}`);
  const lines = [["mechanism", "epsilon_per_record", "delta_per_record", "quantity", "over", "at_least", "at_most"]];
  for (const view of data.views) data.names.forEach((name, m) => data.promised[m].forEach((at, e) => lines.push([
    quoted(name), data.promises[at].epsilon, data.promises[at].delta, view.of, quoted(view.where),
    share(view.lower[m][e]), share(view.upper[m][e])])));
  return lines;
}

/** Return the tables beside the pictures, one after another, with an empty line between them. */
const allTables = () => all("table.data").flatMap((table, i) =>
  [...(i ? [[]] : []), ...[...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.textContent)))]);

/** Offer a text as a file; nothing leaves this page but into the reader's own folder. */
function save(name, kind, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Unpack the result that the page holds. */
async function unpack() {
  const packed = Uint8Array.from(atob($("whole").textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

const FILES = {
  whole: async () => save("result.json", "application/json", await unpack()),
  policy: () => save("policy.toml", "application/toml", data.policy),
  numbers: () => save("numbers.csv", "text/csv",
    (data.views ? allPoints() : allTables()).map((row) => `${row.join(",")}\r\n`).join("")),
};

// ---- the page

if (data.views?.[0].top !== null) { // else no delta is admitted, and there is nothing to move
  if (data.views) explore();
  for (const [name, changes] of Object.entries(data.sliders ?? {})) bind($(name), changes);
  for (const button of all("[data-save]")) button.addEventListener("click", FILES[button.dataset.save]);
  document.documentElement.classList.add("moves");
}
