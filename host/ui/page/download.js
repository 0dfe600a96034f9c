// Files of a chart: CSV with one column for each line, and SVG drawn from the same numbers.
"use strict";

const Download = (() => {
  const WIDTH = 760, HEIGHT = 420, LEFT = 70, BOTTOM = 50, TOP = 34, RIGHT = 190;
  const middle = (y) => (Array.isArray(y) ? y[1] : y);

  function save(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  /** RFC 4180; a group has the columns mean, low and high. */
  function csv(lines, rows) {
    const grouped = lines.some(({ line }) => Array.isArray(line.y[0]));
    const parts = grouped ? [["", 1], [" low", 0], [" high", 2]] : [["", null]];
    const head = [state.axis, ...lines.flatMap(({ title, label }) =>
      parts.map(([part]) => field((label.startsWith("s") ? `${title} smoothed` : title) + part)))];
    const cells = (y) => parts.map(([, place]) => (y === null ? "" : place === null ? y : y[place]));
    return [head, ...rows.map(([x, ...values]) => [x, ...values.flatMap(cells)])]
      .map((row) => row.join(",")).join("\r\n") + "\r\n";
  }

  /** About five round numbers from low to high. */
  function ticks(low, high) {
    if (high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high))) return [low];  // no step changes such a number
    const rough = (high - low) / 5 || 1, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((by) => by * size).find((one) => one >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(at);
    return found;
  }

  function svg(name, lines) {
    const scaled = state.logarithmic ? (y) => (y > 0 ? Math.log10(y) : NaN) : (y) => y;
    const points = lines.map(({ line }) => line.x.map((x, i) => [x, scaled(middle(line.y[i]))])
      .filter(([, y]) => Number.isFinite(y)));
    const xs = points.flat().map(([x]) => x), ys = points.flat().map(([, y]) => y);
    const least = (all) => all.reduce((a, b) => Math.min(a, b), Infinity);
    const most = (all) => all.reduce((a, b) => Math.max(a, b), -Infinity);
    const [left, right, low, high] = [least(xs), most(xs), least(ys), most(ys)];
    const px = (x) => LEFT + ((x - left) / (right - left || 1)) * (WIDTH - LEFT - RIGHT);
    const py = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low || 1)) * (HEIGHT - BOTTOM - TOP);
    const made = shape("svg", { xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height: HEIGHT,
                                viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "font-family": "sans-serif", "font-size": 12 });
    made.append(shape("rect", { width: WIDTH, height: HEIGHT, fill: "white" }),
                shape("text", { x: LEFT, y: 20, "font-weight": "bold" }, name),
                shape("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 12, "text-anchor": "middle" }, state.axis));
    if (!xs.length) return made;
    for (const y of ticks(low, high)) {
      made.append(shape("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(y), y2: py(y), stroke: "#ddd" }),
                  shape("text", { x: LEFT - 6, y: py(y) + 4, "text-anchor": "end" },
                        shownTick(state.logarithmic ? 10 ** y : y)));
    }
    for (const x of ticks(left, right)) {
      made.append(shape("text", { x: px(x), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" },
                        state.axis === "time" ? shownSeconds(x) : shownTick(x)));
    }
    const drawn = lines.map((one, i) => [one, points[i]]).sort(([a]) => (a.label.startsWith("s") ? 1 : -1));
    for (const [{ run, label }, line] of drawn) {
      const faint = label.startsWith("r") && lines.some((one) => one.label === `s${run}`);
      made.append(shape("polyline", { fill: "none", stroke: runColor(run, faint ? 0.28 : 1), "stroke-width": 1.4,
        points: line.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ") }));
    }
    lines.filter(({ label }) => !label.startsWith("s")).slice(0, 24).forEach(({ run, title }, i) => {
      made.append(shape("rect", { x: WIDTH - RIGHT + 12, y: TOP + 16 * i, width: 10, height: 10, fill: runColor(run) }),
                  shape("text", { x: WIDTH - RIGHT + 28, y: TOP + 9 + 16 * i }, title.slice(0, 24)));
    });
    return made;
  }

  const fileName = (name, kind) => `${name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-")}.${kind}`;
  const saveCsv = (name, lines, rows) => save(fileName(name, "csv"), "text/csv", csv(lines, rows));
  const saveSvg = (name, lines) => save(fileName(name, "svg"), "image/svg+xml",
                                        new XMLSerializer().serializeToString(svg(name, lines)));
  return { csv, svg, saveCsv, saveSvg };
})();
