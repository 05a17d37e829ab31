// The map of labels: what of it moves with the epsilon. Ranges and heights come ready from Python; the paths are those
// of epsworth.reports.mapped.

/** Draw what a mechanism sends at an epsilon: a profile along each axis, and the frame that holds half of it. */
function moveMap(data, [m, e], say) {
  const around = data.around, sent = document.getElementById("sent");
  if (!around || !sent) return;
  const own = around.of[m], at = around.near[e], size = own < 0 ? 0 : around.levels[own][at][0].length;
  const levels = own < 0 ? [] : around.levels[own][at], frames = own < 0 ? [] : around.frames[own][at];
  const { left, top, wide, tall } = around, both = around.half > 1;
  const short = (value) => String(Math.round(10 * value) / 10);
  for (const upright of both ? [0, 1] : [0]) {
    document.getElementById(`profile-${upright}`).setAttribute("d", size ? profile(levels[upright], upright) : "");
  }
  const some = size && frames.every((one) => one !== null);
  const [a, b] = some ? frames[0] : [0, -1], [c, d] = some && both ? frames[1] : [0, size - 1];
  const place = some
    ? [left + (wide * a) / size, top + tall * (1 - (d + 1) / size), (wide * (b + 1 - a)) / size, (tall * (d + 1 - c)) / size]
    : [0, 0, 0, 0];
  ["x", "y", "width", "height"].forEach((name, i) => document.getElementById("half").setAttribute(name, place[i]));
  const ranges = own < 0 ? "" : around.said[own][at];
  say(sent, filled(around.words[own < 0 ? "no" : ranges ? "half" : "less"], {
    name: data.names[m], epsilon: own < 0 ? "" : around.epsilons[at], ranges,
  }));

  function profile(letters, upright) {
    const parts = [...letters].map((letter, i) => {
      const high = (around.profile * parseInt(letter, 36)) / 35;
      if (upright) {
        const y = top + tall - (tall * i) / size;
        return `L${short(left + wide + 3 + high)} ${short(y)}V${short(y - tall / size)}`;
      }
      const x = left + (wide * i) / size;
      return `L${short(x)} ${short(top - 3 - high)}H${short(x + wide / size)}`;
    });
    const first = upright ? `${left + wide + 3} ${top + tall}` : `${left} ${top - 3}`;
    return `M${first}${parts.join("")}${upright ? `H${left + wide + 3}` : `V${top - 3}`}z`;
  }
}
