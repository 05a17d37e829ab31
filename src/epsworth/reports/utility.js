// The utility page: what moves when a reader asks for another target, another epsilon or another prior.
// The page can be read without this script; it shows then what it shows first. Everything from a file goes through
// textContent, never into markup.

(() => {
  const data = unfold(JSON.parse(document.getElementById("numbers").textContent));
  const { digits, words } = data;
  const $ = (id) => document.getElementById(id);
  const target = $("target"), stop = $("stop"), prior = $("prior"), back = $("back");
  const views = [...document.querySelectorAll(".view")];
  const rows = [...document.querySelectorAll(".now tbody tr")];
  const started = Number(stop.value);
  if (data.views[0].top === null) return; // no delta is admitted: there is nothing to move

  /** Change an element's text only where it differs: readers aloud are told of changes. */
  function say(element, text) {
    if (element && element.textContent !== text) element.textContent = text;
  }

  const viewNumber = () => Number(document.querySelector("input[name=view]:checked")?.value ?? 0);
  const goal = () => data.targets[Number(target.value)];

  /** Return the stop of the recommendation, or of what comes closest to the target. */
  function home(view) {
    const [m, e] = choose(data, view, goal()) ?? view.top;
    return data.stops.indexOf(data.totals[m][e]);
  }

  /** Return the point that is looked at: the recommendation at its own epsilon, else the highest guarantee there. */
  function lookedAt(view, recommended) {
    const total = data.stops[Number(stop.value)];
    const point = recommended ?? view.top;
    if (data.totals[point[0]][point[1]] === total) return point;
    return highest(view, affordable(data, total)) ?? point;
  }

  function sentence(view, [m, e], recommended) {
    const total = data.totals[m][e];
    const met = view.lower[m][e] >= goal();
    const own = recommended !== null && recommended[0] === m && recommended[1] === e;
    const top = view.top[0] === m && view.top[1] === e;
    const costly = met && data.accepted[m][e] !== "1";
    const without = recommended === null ? (top ? "none" : "never") : met ? "enough" : "short";
    const kind = own ? "use" : costly ? "costly" : without;
    return filled(words[kind], {
      name: data.names[m],
      total: showUp(total),
      where: view.where,
      subject: view.subject,
      lower: percent(view.lower[m][e], digits),
      sure: words.sure,
      most: words.most,
      target: percent(goal(), digits),
      best: recommended === null ? "" : data.names[recommended[0]],
      least: recommended === null ? "" : showUp(data.totals[recommended[0]][recommended[1]]),
    });
  }

  /** The mechanisms within the budget, one row each. */
  function fillTable(view, points, chosen) {
    const people = data.population[view.of];
    document.querySelector(".now").classList.toggle("nobody", !(view.average && people));
    if ($("people")) $("people").hidden = !view.average;
    rows.forEach((row, m) => {
      const cells = row.querySelectorAll("td"), point = points[m];
      row.classList.toggle("chosen", m === chosen[0]);
      if (m === chosen[0]) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      if (point === null) return cells.forEach((cell) => say(cell, "–"));
      const e = point[1], lower = view.lower[m][e], upper = view.upper[m][e];
      const word = lower >= goal() ? "enough" : upper < goal() ? "short" : "open";
      const shown = view.average && people
        ? `${percent(people.lower[m][e], digits).slice(0, -2)}–${percent(people.upper[m][e], digits)}` : "–";
      const texts = [showUp(data.totals[m][e]), percent(lower, digits), percent(upper, digits), shown, words[`${word}_word`]];
      cells.forEach((cell, i) => say(cell, texts[i]));
    });
  }

  /** The pictures of a view: the target, the epsilon, a point on every curve. */
  function movePictures(number, points, chosen) {
    const frame = data.frames[number], view = data.views[number], unit = 10 ** digits;
    const scale = frame.log ? Math.log : (v) => v;
    const x = (total) => frame.left + frame.span * (frame.last > frame.first
      ? (scale(total) - scale(frame.first)) / (scale(frame.last) - scale(frame.first)) : 0.5);
    const y = (share) => frame.top + frame.tall * (1 - (Math.max(share, frame.low) - frame.low) / (1 - frame.low));
    const total = data.stops[Number(stop.value)];
    for (const one of views[number].querySelectorAll(".target")) {
      const at = y(goal() / unit);
      one.setAttribute("transform", `translate(0 ${at})`);
      one.querySelector("text").setAttribute("y", at >= frame.top + 18 ? -5 : 14); // its name stays within the panel
    }
    for (const one of views[number].querySelectorAll(".cursor")) one.setAttribute("transform", `translate(${x(total)} 0)`);
    for (const one of views[number].querySelectorAll(".point")) {
      const m = Number(one.dataset.m), point = points[m];
      one.classList.toggle("chosen", m === chosen[0]);
      one.setAttribute("visibility", point ? "visible" : "hidden");
      if (point) one.setAttribute("transform", `translate(${x(data.totals[m][point[1]])} ${y(view.lower[m][point[1]] / unit)})`);
    }
    for (const one of views[number].querySelectorAll(".panel.alone")) one.classList.toggle("chosen", Number(one.dataset.of) === chosen[0]);
  }

  function fillRecords(view, [m, e]) {
    if (!$("served")) return;
    const mark = document.createElement("bdi");
    mark.textContent = data.names[m];
    $("served").replaceChildren("By ", mark, ` at ε = ${showUp(data.totals[m][e])} per record.`);
    const worst = data.views.find((one) => one.of === view.of && one.worst).lower;
    [worst, ...data.shares[view.of]].forEach((whole, i) => {
      say($(`share-${i}`), percent(whole[m][e], digits));
      $(`share-bar-${i}`).setAttribute("width", whole[m][e] / 10 ** (digits - 2));
    });
    const listed = data.worst[m][e];
    document.querySelectorAll(".worst tbody tr").forEach((row, i) => {
      const [at, lower] = listed.slice(2 * i, 2 * i + 2);
      const [record, label] = data.records[at];
      say(row.querySelector("th"), String(record));
      say(row.querySelector("bdi"), label);
      say(row.querySelector("td:last-child"), percent(lower, digits));
    });
  }

  /** What an observer may know: 50 % before, so much after. */
  function fillObserver([m, e]) {
    const total = data.totals[m][e], delta = data.deltas[m][e];
    const after = observed(total, delta, Number(prior.value) / 100);
    const kind = shareUp(after) === shareUp(1) ? "certain" : delta > 0 ? "weaker" : "pure";
    const before = `${prior.value}\u00a0%`;
    say($("observer"), filled(words[kind], { prior: before, after: shareUp(after), total: showUp(total), delta: showUp(delta) }));
    say($("prior-shown"), before);
    prior.setAttribute("aria-valuetext", before);
    $("knows-0").setAttribute("width", prior.value);
    $("knows-1").setAttribute("width", roundUp(100 * after, 1));
    say($("fact-after"), shareUp(observed(total, delta, 0.5)));
  }

  function show() {
    const number = viewNumber(), view = data.views[number];
    const recommended = choose(data, view, goal());
    const total = data.stops[Number(stop.value)];
    const looked = lookedAt(view, recommended), points = affordable(data, total);
    if (data.totals[looked[0]][looked[1]] === total) points[looked[0]] = looked;
    views.forEach((one, i) => { one.hidden = i !== number; });
    say($("sentence"), sentence(view, looked, recommended));
    const good = view.lower[looked[0]][looked[1]] >= goal() && data.accepted[looked[0]][looked[1]] === "1";
    document.querySelector("section.decision").classList.toggle("no", !good);
    say($("fact-total"), showUp(data.totals[looked[0]][looked[1]]));
    say($("fact-lower"), percent(view.lower[looked[0]][looked[1]], digits));
    for (const [slider, text] of [[target, percent(goal(), digits)], [stop, showUp(total)]]) {
      say($(`${slider.id}-shown`), text);
      slider.setAttribute("aria-valuetext", text);
    }
    const idle = Number(stop.value) === home(view) && goal() === data.target && number === 0;
    if (!(idle && document.activeElement === back)) back.disabled = idle; // focus is never lost under a reader's hands
    if ($("cap")) {
      const cap = data.caps[Number(stop.value)], kind = cap === 10 ** digits ? "free" : "cap";
      say($("cap"), filled(words[kind], { total: showUp(total), cap: percent(cap, digits), below: percent(cap - 1, digits) }));
    }
    fillTable(view, points, looked);
    movePictures(number, points, looked);
    fillRecords(view, looked);
    fillObserver(looked);
    moveMap(data, looked, say);
  }

  /** One row per point of the curves. */
  function everyPoint() {
    const share = (units) => Number(`${units}e-${digits}`);
    const lines = [["mechanism", "epsilon_per_record", "delta_per_record", "quantity", "over", "at_least", "at_most"]];
    for (const view of data.views) data.names.forEach((name, m) => data.epsilons.forEach((epsilon, e) => lines.push(
      [quoted(name), data.totals[m][e], data.deltas[m][e], view.of, quoted(view.where), share(view.lower[m][e]), share(view.upper[m][e])])));
    return lines;
  }

  target.addEventListener("input", () => { stop.value = home(data.views[viewNumber()]); show(); });
  stop.addEventListener("input", show);
  prior.addEventListener("input", show);
  for (const radio of document.querySelectorAll("input[name=view]")) {
    radio.addEventListener("change", () => { stop.value = home(data.views[viewNumber()]); show(); });
  }
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
