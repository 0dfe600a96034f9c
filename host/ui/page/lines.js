// What a chart draws: the curves of runs, as they are, minus a baseline, or as means over groups of runs.
"use strict";

/** The x of points on the chosen axis. */
const xOf = (points) =>
  (state.axis === "time" ? points.seconds : state.axis === "tokens" ? points.tokens : points.step);

const Lines = (() => {
  /** {x, y} of the points that have both. */
  function drawn(points) {
    const all = xOf(points), line = { x: [], y: [] };
    points.value.forEach((y, i) => {
      if (all[i] === null || all[i] === undefined) return;
      line.x.push(all[i]);
      line.y.push(y);
    });
    return line;
  }

  function minus(line, baseline) {
    const left = { x: [], y: [] };
    line.x.forEach((x, i) => {
      const y = interpolated(baseline.x, baseline.y, x);
      if (y === null) return;
      left.x.push(x);
      left.y.push(line.y[i] - y);
    });
    return left;
  }

  /** Mean and standard deviation over the lines that cover x, at every x of any of them. */
  function meanOf(lines) {
    const mean = { x: [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b), y: [] };
    for (const x of mean.x) {
      const values = lines.map((line) => interpolated(line.x, line.y, x)).filter((y) => y !== null);
      const middle = values.reduce((sum, y) => sum + y, 0) / values.length;
      const squares = values.reduce((sum, y) => sum + (y - middle) ** 2, 0);
      const spread = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
      mean.y.push([middle - spread, middle, middle + spread]);
    }
    return mean;
  }

  const groupOf = (run) => (state.group === "name" ? state.runs.find(({ id }) => id === run)?.name
    : shownNumber(configOf(run, state.group)));
  const groupTitle = (group) => (state.group === "name" || state.group === "sweep" ? group
    : `${shortKey(state.group)} ${group}`);

  /** [{label, title, run, line}]: `line` is {x, y}, with y = [low, mean, high] for groups. Labels of raw curves begin
   *  with r, of smoothed ones with s, of groups with g. `run` gives the colour. */
  function of(curves, areSmoothed) {
    const kinds = areSmoothed ? [["r", "raw"], ["s", "smooth"]] : [["r", "raw"]];
    const baseline = curves.find((curve) => curve.run === state.baseline);
    const linesOf = ([letter, kind]) => curves.map((curve) => {
      const line = drawn(curve[kind]);
      return { label: `${letter}${curve.run}`, title: runTitle(curve.run), run: curve.run,
               line: baseline ? minus(line, drawn(baseline[kind])) : line };
    });
    if (!state.group) return kinds.flatMap(linesOf);
    const groups = new Map();
    for (const one of linesOf(kinds.at(-1))) {
      const group = groupOf(one.run);
      groups.set(group, [...(groups.get(group) ?? []), one]);
    }
    return [...groups].map(([group, members]) => ({
      label: `g${members[0].run}`, title: `${groupTitle(group)} (${counted(members.length, "run")})`,
      run: members[0].run, line: meanOf(members.map(({ line }) => line)),
    }));
  }

  /** [[x, y of line 1, ...], ...]. Many lines use a common grid of half a pixel, since every x of one is a row for
      all. */
  function rowsOf(lines, range, cells) {
    const ends = lines.flatMap(({ line }) => [line.x[0], line.x.at(-1)]).filter((x) => x !== undefined);
    const [from, to] = range ?? [Math.min(...ends), Math.max(...ends)];
    const grid = lines.length > 12 ? (to - from) / (4 * cells) : 0;
    const rows = new Map();
    lines.forEach(({ line }, column) => {
      line.x.forEach((x, i) => {
        const place = grid > 0 ? Math.round(x / grid) * grid : x;
        let row = rows.get(place);
        if (!row) rows.set(place, row = [place, ...new Array(lines.length).fill(null)]);
        row[column + 1] = line.y[i];
      });
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  return { of, rowsOf };
})();
