// How the heads of a run disturb each other (docs/heads.md): the cosines of each two heads' gradients over the compared
// steps, red below 0 and blue above, and all of them at one step as a matrix.
"use strict";

const Heads = (() => {
  const MOST_COLUMNS = 240, ROW = 18, LEFT = 76, TOP = 18, WIDTH = 900;  // pixels
  let run = null, known = null, column = null;  // `column`: null follows the newest

  const COSINE = /^heads\/cosine_(\d+)_(\d+)$/, NORM = /^heads\/norm_(\d+)$/;
  const isOfHeads = (name) => COSINE.test(name) || NORM.test(name);

  const color = (cosine) => `hsla(${cosine < 0 ? 12 : 212}, 85%, 52%, ${Math.min(1, 0.08 + 0.8 * Math.abs(cosine))})`;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** The curves as {pairs: [[j, k]], heads: [k], columns: [{first, last, values: Map(name -> mean over steps)}]}. */
  function arranged(curves) {
    const steps = [...new Set(curves.flatMap((curve) => curve.raw.step))].sort((a, b) => a - b);
    const inEach = Math.max(1, Math.ceil(steps.length / MOST_COLUMNS)), columns = [];
    for (let i = 0; i < steps.length; i += inEach) {
      const of = steps.slice(i, i + inEach);
      columns.push({ first: of[0], last: of.at(-1), values: new Map() });
    }
    const placeOf = new Map(steps.map((step, i) => [step, Math.floor(i / inEach)]));
    for (const { name, raw } of curves) {
      const values = columns.map(() => []);
      raw.step.forEach((step, i) => values[placeOf.get(step)].push(raw.value[i]));
      values.forEach((of, i) => { if (of.length) columns[i].values.set(name, mean(of)); });
    }
    const numbers = (pattern) => curves.map(({ name }) => name.match(pattern)).filter(Boolean)
      .map((found) => found.slice(1).map(Number)).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return { pairs: numbers(COSINE), heads: numbers(NORM).map(([head]) => head), columns, inEach };
  }

  const titleOf = ({ first, last }) => (first === last ? `step ${shownNumber(first)}`
    : `steps ${shownNumber(first)} to ${shownNumber(last)}`);
  const shownColumn = () => known.columns[Math.min(column ?? Infinity, known.columns.length - 1)];

  function heatMap({ pairs, columns }) {
    const width = Math.min(24, (WIDTH - LEFT) / columns.length), height = TOP + pairs.length * ROW;
    const label = "Cosines of the heads' gradients by step; the table below has the numbers of one column";
    const svg = shape("svg", { width: LEFT + columns.length * width + 60, height: height + 20, role: "img",
                               id: "head-map", "aria-label": label });
    pairs.forEach(([j, k], row) => {
      svg.append(shape("text", { x: LEFT - 6, y: TOP + row * ROW + 13, "text-anchor": "end" }, `heads ${j}, ${k}`));
    });
    columns.forEach((one, i) => {
      pairs.forEach(([j, k], row) => {
        const cosine = one.values.get(`heads/cosine_${j}_${k}`);
        if (cosine === undefined) return;
        svg.append(shape("rect", { x: LEFT + i * width, y: TOP + row * ROW, width: Math.max(1, width - 1),
                                   height: ROW - 2, fill: color(cosine), "data-column": i, "data-pair": `${j},${k}` },
                         shape("title", {}, `${titleOf(one)}, heads ${j} and ${k}: cosine ${shownNumber(cosine)}`)));
      });
    });
    const marked = columns.indexOf(shownColumn());
    svg.append(shape("text", { x: LEFT, y: height + 14 }, shownNumber(columns[0].first)),
               shape("rect", { x: LEFT + marked * width - 1, y: TOP - 4, width: width + 1, height: 3, class: "bin" }));
    if (columns.length > 1) {
      svg.append(shape("text", { x: LEFT + columns.length * width, y: height + 14, "text-anchor": "end" },
                       columns.length * width < 80 ? "" : shownNumber(columns.at(-1).last)));
    }
    svg.addEventListener("click", ({ target }) => {
      if (target.dataset?.column === undefined) return;
      column = Number(target.dataset.column);
      if (column === columns.length - 1) column = null;
      render();
    });
    return svg;
  }

  /** Cosines of each two heads at the chosen column; a head's norm next to its name. */
  function matrix({ heads }) {
    const { values } = shownColumn();
    const cell = (j, k) => {
      const cosine = j === k ? 1 : values.get(`heads/cosine_${Math.min(j, k)}_${Math.max(j, k)}`);
      const made = element("td", { class: "number", textContent: j === k ? "1" : shownNumber(cosine) });
      if (cosine !== undefined && j !== k) made.style.backgroundColor = color(cosine);
      return made;
    };
    return element("div", { class: "table" }, element("table", { id: "head-matrix" },
      element("caption", {}, `Cosines at ${titleOf(shownColumn())}`),
      element("thead", {}, element("tr", {}, element("th"), ...heads.map((k) =>
        element("th", { scope: "col" }, `head ${k}`)), element("th", { scope: "col" }, "norm"))),
      element("tbody", {}, ...heads.map((j) => element("tr", {}, element("th", { scope: "row" }, `head ${j}`),
        ...heads.map((k) => cell(j, k)),
        element("td", { class: "number", textContent: shownNumber(values.get(`heads/norm_${j}`)) }))))));
  }

  function render() {
    const choice = element("select", { id: "heads-run",
                                       onchange: ({ target }) => { run = Number(target.value); return load(); } });
    fillSelect(choice, chosenRuns().map(({ id }) => [id, runTitle(id)]), run);
    const bar = element("div", { class: "bar" }, element("label", {}, "Run ", choice));
    if (!known.pairs.length) return byId("heads").replaceChildren(bar, element("p", { class: "empty" },
      "This run has compared no heads. [log] heads_every_steps = 10 compares them in every tenth step."));
    const of = known.inEach > 1 ? `Each column is the mean of ${counted(known.inEach, "compared step")}.`
      : "Each column is a compared step.";
    byId("heads").replaceChildren(bar,
      element("p", { class: "hint" }, `${of} Red: two heads pull the trunk apart; blue: they pull it the same way. ` +
                                      "Click a column for its numbers."),
      element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Cosines by step" }, heatMap(known)),
      matrix(known));
  }

  async function load() {
    if (state.tab !== "heads") return;
    const chosen = chosenRuns().map(({ id }) => id);
    if (!chosen.includes(run)) run = chosen[0] ?? null;
    if (run === null) return byId("heads").replaceChildren(element("p", { class: "empty" }, "No run is chosen."));
    const asked = run, names = state.names.filter(isOfHeads);
    const { curves } = names.length  // all points: a matrix needs the same steps of each
      ? await source.curves({ runs: [run], names, smoothing: 0, x: "step", cells: 10000 }) : { curves: [] };
    if (asked !== run || state.tab !== "heads") return;
    const focused = document.activeElement?.id;
    known = arranged(curves);
    render();
    if (focused) byId(focused)?.focus();
  }

  function start() {
    whenChanged(["tab", "chosen"], () => { column = null; return load(); });
    whenChanged(["runs"], atMostEvery(5000, load));
  }
  return { start };
})();
