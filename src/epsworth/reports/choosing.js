// What a target and an epsilon mean: the rules of epsworth.utility.recommendation, on the numbers that the page holds.
// Lower bounds there are rounded down and upper bounds up, to whole units of 10^-digits, as are targets: so "enough" here
// is never said where it does not hold of the result itself. Points are pairs [mechanism, epsilon], by number.

/** Unfold what the page holds once: epsilons per record, notions and deltas of every point. */
function unfold(data) {
  data.totals = data.totals.map((row) => row.map((at) => data.budgets[at]));
  data.notions = data.promises.map((row) => row.map((at) => data.kinds[at][0]));
  data.deltas = data.promises.map((row) => row.map((at) => data.kinds[at][1]));
  return data;
}

/** Return the recommended point, among those that protect enough: strongest notion, then least epsilon per record, least delta, highest guarantee. */
function choose(data, view, target) {
  let best = null;
  data.names.forEach((_, m) => {
    const e = view.lower[m].findIndex((lower, at) => lower >= target && data.accepted[m][at] === "1");
    if (e >= 0 && (best === null || before(data, view, [m, e], best))) best = [m, e];
  });
  return best;
}

function before(data, view, one, other) {
  const [a, b] = [one, other].map(([m, e]) => [data.notions[m][e], data.totals[m][e], data.deltas[m][e]]);
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return higher(view, one, other);
}

/** Tell whether a point's guarantee is higher; ranks know of digits that the page does not hold. */
function higher(view, [m, e], [other, at]) {
  const own = view.lower[m][e], its = view.lower[other][at];
  return own !== its ? own > its : e === at && view.rank[m][e] < view.rank[other][at];
}

/** Return, by mechanism, the point with the largest epsilon per record that a budget pays for; null for none. */
function affordable(data, total) {
  return data.totals.map((row, m) => {
    let best = null;
    row.forEach((own, e) => {
      const fits = own <= total && data.admitted[m][e] === "1";
      if (fits && (best === null || own > row[best])) best = e;
    });
    return best === null ? null : [m, best];
  });
}

/** Return the point whose guarantee is the highest. */
function highest(view, points) {
  return points.reduce((best, one) => (one && (!best || higher(view, one, best)) ? one : best), null);
}

/** Return what an observer may know after one release, as a share rounded outwards; prior: what they held likely before.
 *
 * Under a pure promise it is how sure they can be of the suspected value, p / (p + (1 - p) e^-E). Under a weaker one it is
 * how often they can be right: the largest of p + (1 - p) delta, the same for 1 - p, and (e^E + delta) / (e^E + 1).
 */
function observed(total, delta, prior) {
  const other = 1 - prior, fade = Math.exp(-total);
  const found = delta > 0
    ? Math.max(prior + other * delta, other + prior * delta, (1 + fade * delta) / (1 + fade))
    : prior / (prior + other * fade);
  return Math.min(1, found * (1 + 2 ** -46)); // more than its few roundings
}
