// What a chart draws: the curves of runs, as they are, minus a baseline, or as means over groups of runs.
// Differences and means are taken at common steps only.
"use strict";

/** The x of points on the chosen axis. */
const xOf = (points) =>
  (state.axis === "time" ? points.seconds : state.axis === "tokens" ? points.tokens : points.step);

const Lines = (() => {
  const MOST_RUNS = 1000;  // of a request

  /** {x, y, at} of the points that have both. `at` is where runs are compared: at equal tokens on that axis, else at
   *  equal steps. */
  function drawn(points) {
    const all = xOf(points), line = { x: [], y: [], at: [] };
    points.value.forEach((y, i) => {
      if (all[i] === null || all[i] === undefined) return;
      line.x.push(all[i]);
      line.y.push(y);
      line.at.push(state.axis === "tokens" ? points.tokens[i] : points.step[i]);
    });
    return line;
  }

  /** Where both have a point: a value between two points would be invented. */
  function minus(line, baseline) {
    const left = { x: [], y: [], at: [] }, subtracted = new Map(baseline.at.map((at, i) => [at, baseline.y[i]]));
    line.at.forEach((at, i) => {
      if (!subtracted.has(at)) return;
      left.x.push(line.x[i]);
      left.y.push(line.y[i] - subtracted.get(at));
      left.at.push(at);
    });
    return left;
  }

  /** Mean and standard deviation where all lines have a point; x is the mean of theirs. */
  function meanOf(lines) {
    const points = new Map();
    for (const line of lines) {
      line.at.forEach((at, i) => {
        const point = points.get(at) ?? points.set(at, { xs: [], ys: [] }).get(at);
        point.xs.push(line.x[i]);
        point.ys.push(line.y[i]);
      });
    }
    const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const mean = { x: [], y: [], at: [] };
    for (const [at, { xs, ys }] of [...points].sort(([a], [b]) => a - b)) {
      if (ys.length < lines.length) continue;
      const middle = average(ys);
      const squares = ys.reduce((sum, y) => sum + (y - middle) ** 2, 0);
      const spread = ys.length > 1 ? Math.sqrt(squares / (ys.length - 1)) : 0;
      mean.x.push(average(xs));
      mean.y.push([middle - spread, middle, middle + spread]);
      mean.at.push(at);
    }
    return mean;
  }

  /** Whether smoothed values may be compared: their lag depends on the steps that have points. */
  const areSmoothedAlike = (curves) => curves.every((curve) => !curve.can_be_smoothed)
    || new Set(curves.map(({ every, can_be_smoothed: can }) => `${every} ${can}`)).size <= 1;

  const groupOf = (run) => (state.group === "name" ? state.runs.find(({ id }) => id === run)?.name
    : shownNumber(configOf(run, state.group)));
  const groupTitle = (group) => (state.group === "name" || state.group === "sweep" ? group
    : `${shortKey(state.group)} ${group}`);

  const named = (ids) => `${ids.length === 1 ? "run" : "runs"} ${ids.sort((a, b) => a - b).slice(0, 8).join(", ")}${
    ids.length > 8 ? `, … (${ids.length})` : ""}`;

  /** The runs of the charts: groups are of all listed runs, other curves of the chosen ones. */
  const runs = () => (state.group ? RunTable.shown().slice(0, MOST_RUNS).map(({ id }) => id).sort((a, b) => a - b)
    : [...state.chosen]);

  /** Map(group -> its curves) */
  function inGroups(curves) {
    const groups = new Map();
    for (const curve of curves) {
      const group = groupOf(curve.run);
      if (groups.has(group)) groups.get(group).push(curve);
      else groups.set(group, [curve]);
    }
    return groups;
  }

  /** Config keys in which runs of one name differ, the seed aside: they are no repetitions of one experiment. */
  const mixedKeys = (ids) => (state.group !== "name" ? [] : Object.keys(state.configs).filter((key) =>
    !["name", "seed", "sweep"].includes(key) && new Set(ids.map((id) => configOf(id, key))).size > 1));

  function meanLine(group, curves, lineOf, remarks) {
    const line = meanOf(curves.map(lineOf)), title = groupTitle(group), [{ run }] = curves;
    const mixed = mixedKeys(curves.map((curve) => curve.run)).map(shortKey);
    if (mixed.length) remarks.push(`the runs of ${title} differ in ${mixed.join(", ")}`);
    const shortest = curves.reduce((a, b) => (b.last_step < a.last_step ? b : a));
    if (!line.at.length) remarks.push(`the runs of ${title} have no common step`);
    else if (curves.some((curve) => curve.last_step > shortest.last_step))
      remarks.push(`the mean of ${title} ends with run ${shortest.run}`);
    return { label: `g${run}`, title: `${title} (${counted(curves.length, "run")})`, run, line };
  }

  /** {lines: [{label, title, run, line}], remarks: [text]} of a metric: `line` is {x, y, at}, with y =
   *  [low, mean, high] for groups. Labels of raw curves begin with r, of smoothed ones with s, of groups with g. `run`
   *  gives the colour. */
  function of(name, curves, areSmoothed) {
    const kinds = areSmoothed ? [["r", "raw"], ["s", "smooth"]] : [["r", "raw"]], remarks = [];
    const members = new Set(runs()), baseline = curves.find((curve) => curve.run === state.baseline);
    const shown = curves.filter((curve) => members.has(curve.run));
    const isComparable = ({ run }) => !baseline || areComparable([run, baseline.run], name);
    const refused = shown.filter((curve) => !isComparable(curve)).map(({ run }) => run);
    if (state.baseline && !baseline && curves.length)
      remarks.push(`run ${state.baseline} has no values to subtract`);
    if (refused.length) remarks.push(`no difference of ${name} for ${named(refused)}: ${state.whyNoDifference}`);
    if (!baseline && !areComparable(shown.map(({ run }) => run), name))
      remarks.push(`${name} is not comparable between all of these runs: ${state.whyNoDifference}`);
    const drawnCurves = shown.filter(isComparable);
    const groups = state.group ? inGroups(drawnCurves) : new Map(drawnCurves.map((curve) => [curve.run, [curve]]));
    const unlike = new Set(areSmoothed ? [...groups.values()].filter((together) =>
      !areSmoothedAlike([...together, ...(baseline ? [baseline] : [])])).flat() : []);
    if (unlike.size)
      remarks.push(`not smoothed, because values are at other steps: ${named([...unlike].map(({ run }) => run))}`);
    const lineOf = (curve, kind) => {
      const used = unlike.has(curve) ? "raw" : kind, line = drawn(curve[used]);
      return baseline ? minus(line, drawn(baseline[used])) : line;
    };
    const lines = state.group
      ? [...groups].map(([group, together]) =>
        meanLine(group, together, (curve) => lineOf(curve, kinds.at(-1)[1]), remarks))
      : kinds.flatMap(([letter, kind]) => drawnCurves.map((curve) => ({
        label: `${letter}${curve.run}`, title: runTitle(curve.run), run: curve.run, line: lineOf(curve, kind) })));
    return { lines, remarks };
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

  return { of, rowsOf, runs };
})();
