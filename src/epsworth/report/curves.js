// The page of curves: what moves when a reader asks for another target, another epsilon or another prior. Everything is
// looked up: Python has chosen and rounded for every stop. The page can be read without this script; it shows then what
// it shows first. Everything from a file goes through textContent, never into markup. Points are [mechanism, epsilon].

"use strict";

(() => {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const { digits, words } = data;
  const $ = (id) => document.getElementById(id);
  const target = $("target"), stop = $("stop"), prior = $("prior"), back = $("back");
  const views = [...document.querySelectorAll(".view")];
  const rows = [...document.querySelectorAll(".now tbody tr")];
  const started = Number(stop.value);
  if (data.views[0].top === null) return; // no delta is admitted: there is nothing to move

  /** Change an element's text only where it differs: readers aloud are told of changes. */
  const say = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const viewNumber = () => Number(document.querySelector("input[name=view]:checked")?.value ?? 0);
  const goal = () => data.targets[Number(target.value)];
  const promise = ([m, e]) => data.promises[data.promised[m][e]];
  const same = (one, other) => one !== null && one[0] === other[0] && one[1] === other[1];
  const recommended = (view) => view.chosen[Number(target.value)];

  /** Print a share that is stored as a whole number of 10^-digits, in per cent. */
  function percent(units) {
    const text = String(units).padStart(digits - 1, "0"), cut = text.length - (digits - 2);
    return `${text.slice(0, cut)}.${text.slice(cut)}\u00a0%`;
  }

  /** Return the stop of the recommendation, or of what comes closest to the target. */
  const home = (view) => data.stops.indexOf(promise(recommended(view) ?? view.top).epsilon);

  /** Return the point that is looked at: the recommendation at its own epsilon, else the highest guarantee there. */
  function lookedAt(view) {
    const point = recommended(view) ?? view.top, at = Number(stop.value);
    return promise(point).epsilon === data.stops[at] ? point : view.best[at] ?? point;
  }

  function sentence(view, point) {
    const [m, e] = point, met = view.lower[m][e] >= goal(), chosen = recommended(view);
    const costly = met && data.accepted[m][e] !== "1";
    const without = chosen === null ? (same(view.top, point) ? "none" : "never") : met ? "enough" : "short";
    return fill(words[same(chosen, point) ? "use" : costly ? "costly" : without], {
      ...words, name: data.names[m], total: promise(point).shown, where: view.where, subject: view.subject,
      lower: percent(view.lower[m][e]), target: percent(goal()),
      best: chosen === null ? "" : data.names[chosen[0]], least: chosen === null ? "" : promise(chosen).shown,
    });
  }

  /** The mechanisms within the budget, one row each. */
  function fillTable(view, at, chosen) {
    const people = data.population[view.of];
    document.querySelector(".now").classList.toggle("nobody", !(view.average && people));
    if ($("people")) $("people").hidden = !view.average;
    rows.forEach((row, m) => {
      const cells = row.querySelectorAll("td"), e = at[m];
      row.classList.toggle("chosen", m === chosen[0]);
      if (m === chosen[0]) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      if (e === null) return cells.forEach((cell) => say(cell, "–"));
      const lower = view.lower[m][e], upper = view.upper[m][e];
      const word = lower >= goal() ? "enough" : upper < goal() ? "short" : "open";
      const shown = view.average && people
        ? `${percent(people.lower[m][e]).slice(0, -2)}–${percent(people.upper[m][e])}` : "–";
      const texts = [promise([m, e]).shown, percent(lower), percent(upper), shown, words[`${word}_word`]];
      cells.forEach((cell, i) => say(cell, texts[i]));
    });
  }

  /** The pictures of a view: the target, the epsilon, a point on every curve. */
  function movePictures(number, at, chosen) {
    const frame = data.frames[number], view = data.views[number], scale = frame.log ? Math.log : (v) => v;
    const x = (total) => frame.left + frame.span * (frame.last > frame.first
      ? (scale(total) - scale(frame.first)) / (scale(frame.last) - scale(frame.first)) : 0.5);
    const y = (units) => frame.top + frame.tall * (1 - (Math.max(units / 10 ** digits, frame.low) - frame.low) / (1 - frame.low));
    const all = (kind, move) => views[number].querySelectorAll(kind).forEach(move);
    all(".target", (one) => {
      one.setAttribute("transform", `translate(0 ${y(goal())})`);
      one.querySelector("text").setAttribute("y", y(goal()) >= frame.top + 18 ? -5 : 14); // its name stays within
    });
    all(".cursor", (one) => one.setAttribute("transform", `translate(${x(data.stops[Number(stop.value)])} 0)`));
    all(".point", (one) => {
      const m = Number(one.dataset.m), e = at[m];
      one.classList.toggle("chosen", m === chosen[0]);
      one.setAttribute("visibility", e === null ? "hidden" : "visible");
      if (e !== null) one.setAttribute("transform", `translate(${x(promise([m, e]).epsilon)} ${y(view.lower[m][e])})`);
    });
    all(".panel.alone", (one) => one.classList.toggle("chosen", Number(one.dataset.of) === chosen[0]));
  }

  function fillRecords(view, point) {
    const served = document.querySelectorAll(".served tbody tr");
    if (!served.length) return;
    const [m, e] = point, mark = document.createElement("bdi");
    mark.textContent = data.names[m];
    $("served").replaceChildren("By ", mark, ` at ε = ${promise(point).shown} per record.`);
    const worst = data.views.find((one) => one.of === view.of && one.worst).lower;
    [worst, ...data.shares[view.of]].forEach((whole, i) => {
      say(served[i].cells[1], percent(whole[m][e]));
      served[i].querySelector("rect").setAttribute("width", whole[m][e] / 10 ** (digits - 2));
    });
    const listed = data.worst[m][e];
    document.querySelectorAll(".worst tbody tr").forEach((row, i) => {
      const [record, label] = data.records[listed[2 * i]];
      say(row.querySelector("th"), String(record));
      say(row.querySelector("bdi"), label);
      say(row.querySelector("td:last-child"), percent(listed[2 * i + 1]));
    });
  }

  /** What an observer may know: so much before, so much after. */
  function fillObserver(point) {
    const own = promise(point), at = Number(prior.value), after = own.after[at], before = data.priors[at];
    const kind = after === data.certain ? "certain" : own.delta > 0 ? "weaker" : "pure";
    say($("observer"), fill(words[kind], { prior: before, after, total: own.shown, delta: own.delta_shown }));
    say($("prior-shown"), before);
    prior.setAttribute("aria-valuetext", before);
    [before, after].forEach((share, i) => $(`knows-${i}`).setAttribute("width", parseFloat(share)));
    say($("fact-after"), own.after[data.even]);
  }

  function show() {
    const number = viewNumber(), view = data.views[number], stopped = Number(stop.value), looked = lookedAt(view);
    const [m, e] = looked, own = promise(looked), at = [...data.at[stopped]];
    if (own.epsilon === data.stops[stopped]) at[m] = e;
    views.forEach((one, i) => { one.hidden = i !== number; });
    say($("sentence"), sentence(view, looked));
    const good = view.lower[m][e] >= goal() && data.accepted[m][e] === "1";
    document.querySelector("section.decision").classList.toggle("no", !good);
    say($("fact-total"), own.shown);
    say($("fact-lower"), percent(view.lower[m][e]));
    for (const [slider, text] of [[target, percent(goal())], [stop, data.stops_shown[stopped]]]) {
      say($(`${slider.id}-shown`), text);
      slider.setAttribute("aria-valuetext", text);
    }
    const idle = stopped === home(view) && goal() === data.target && number === 0;
    if (!(idle && document.activeElement === back)) back.disabled = idle; // focus is never lost under a reader's hands
    const cap = data.caps[stopped], free = cap === 10 ** digits;
    say($("cap"), fill(words[free ? "free" : "cap"], { total: data.stops_shown[stopped], cap: percent(cap), below: percent(cap - 1) }));
    fillTable(view, at, looked);
    movePictures(number, at, looked);
    fillRecords(view, looked);
    fillObserver(looked);
  }

  /** One row per point of the curves. */
  function everyPoint() {
    const share = (units) => Number(`${units}e-${digits}`);
    const lines = [["mechanism", "epsilon_per_record", "delta_per_record", "quantity", "over", "at_least", "at_most"]];
    for (const view of data.views) data.names.forEach((name, m) => data.promised[m].forEach((at, e) => lines.push([
      quoted(name), data.promises[at].epsilon, data.promises[at].delta, view.of, quoted(view.where),
      share(view.lower[m][e]), share(view.upper[m][e])])));
    return lines;
  }

  const goHome = () => { stop.value = home(data.views[viewNumber()]); show(); };
  target.addEventListener("input", goHome);
  for (const radio of document.querySelectorAll("input[name=view]")) radio.addEventListener("change", goHome);
  stop.addEventListener("input", show);
  prior.addEventListener("input", show);
  back.addEventListener("click", () => {
    const first = document.querySelector("input[name=view][value='0']");
    if (first) first.checked = true;
    target.value = data.targets.indexOf(data.target);
    stop.value = started;
    show();
  });
  offerFiles(data, everyPoint);
  document.documentElement.classList.add("moves");
  show();
})();
