// Tensor memory of one rank by phase and category, as stacked bars over the logged steps (rows: db/README.md). A phase
// is logged when it has grown, so its last bar is its highest.
"use strict";

const Memory = (() => {
  const CATEGORIES = ["parameters", "gathered", "gradients", "optimizer", "activations", "logits", "communication",
                      "checkpoint", "other"];
  const IN_A_STEP = ["start", "frozen_models", "validation", "generation", "forward", "weights", "value_heads", "head",
                     "head_products", "backward", "optimizer", "checkpoint", "other", "live"];
  const SUMS = new Set(["allocated", "resident", "largest_block", "reserved", "device_used"]);
  const MOST_BARS = 240, HEIGHT = 240, BAR = 16, CHARACTER = 7;  // pixels; CHARACTER is the maximum width
  let run = null, rank = 0, known = null;

  const color = (category) => {
    const place = CATEGORIES.indexOf(category);
    return `hsl(${HUES[(place < 0 ? 9 : place) % HUES.length]}, ${isDark() ? 55 : 60}%, ${isDark() ? 60 : 55}%)`;
  };
  const order = (phase) => {
    const head = phase.match(/^head_(\d+)$/);
    const place = IN_A_STEP.indexOf(head ? "head" : phase);
    return (place < 0 ? IN_A_STEP.length : place) + (head ? Number(head[1]) / 1000 : 0);
  };

  /** [{step, phase, parts: Map(category -> bytes)}], in chronological order. */
  function barsOf(rows) {
    const bars = new Map();
    for (const [of, step, phase, category, bytes] of rows) {
      if (of !== rank || phase === "peak" || phase === "process" || SUMS.has(category)) continue;
      const key = `${step} ${phase}`;
      if (!bars.has(key)) bars.set(key, { step, phase, parts: new Map() });
      bars.get(key).parts.set(category, bytes);
    }
    return [...bars.values()].sort((a, b) => a.step - b.step || order(a.phase) - order(b.phase));
  }

  const total = (bar) => [...bar.parts.values()].reduce((sum, bytes) => sum + bytes, 0);

  function drawing(bars, categories) {
    const highest = Math.max(1, ...bars.map(total));
    const marked = state.events.filter((event) => event.run === run && event.level !== "info" && event.step !== null);
    const svg = shape("svg", { width: bars.length * BAR + 120, height: HEIGHT + 122, role: "img",
                               "aria-label": `Memory of rank ${rank} by phase; the table below has the numbers` });
    for (const part of [0, 0.5, 1]) {
      const y = 14 + HEIGHT * (1 - part);
      svg.append(shape("line", { x1: 64, x2: bars.length * BAR + 68, y1: y, y2: y, class: "grid" }),
                 shape("text", { x: 60, y: y + 4, "text-anchor": "end" }, shownBytes(highest * part)));
    }
    let before = null, free = 0;  // free: the minimum x of the next step label
    bars.forEach((bar, i) => {
      const x = 66 + i * BAR;
      let y = 14 + HEIGHT;
      for (const category of categories) {
        const bytes = bar.parts.get(category) ?? 0;
        const height = (bytes / highest) * HEIGHT;
        if (height <= 0) continue;
        y -= height;
        svg.append(shape("rect", { x, y, width: BAR - 2, height, fill: color(category), "data-category": category },
                         shape("title", {}, `step ${bar.step}, ${bar.phase}: ${category} ${shownBytes(bytes)} of ` +
                                            shownBytes(total(bar)))));
      }
      svg.append(shape("text", { transform: `translate(${x + BAR / 2 + 3} ${HEIGHT + 22}) rotate(90)` }, bar.phase));
      if (bar.step !== before) {
        const events = marked.filter((event) => event.step > (before ?? -1) && event.step <= bar.step);
        svg.append(shape("line", { x1: x - 1, x2: x - 1, y1: 0, y2: HEIGHT + 14, class: "grid" }));
        const sign = events.length ? "⚠" : "";
        const text = x >= free ? `${sign} step ${bar.step}`.trim() : sign;  // the step is also in the bar's title
        if (x >= free) free = x + CHARACTER * (text.length + 1);
        const label = shape("text", { x, y: 10, class: sign ? "marked" : "" }, text);
        label.append(shape("title", {}, events.map((event) => `${event.kind}: ${event.message}`).join("\n")));
        if (text) svg.append(label);
      }
      before = bar.step;
    });
    return svg;
  }

  /** The peak of each category on each rank, from the rows of the phase `peak`. */
  function peaks(rows) {
    const byRank = new Map();
    for (const [of, , phase, category, bytes] of rows) {
      if (phase !== "peak") continue;
      const row = byRank.get(of) ?? byRank.set(of, new Map()).get(of);
      row.set(category, Math.max(bytes, row.get(category) ?? 0));
    }
    const columns = ["device_used", "reserved", "resident", "allocated", ...CATEGORIES].filter((category) =>
      [...byRank.values()].some((row) => row.get(category) > 0));
    const lines = [...byRank].sort((a, b) => a[0] - b[0]).map(([of, row]) => element("tr", {},
      element("th", { scope: "row" }, `rank ${of}`),
      ...columns.map((category) => element("td", { class: "number" }, shownBytes(row.get(category) ?? 0)))));
    return element("div", { class: "table" }, element("table", {},
      element("caption", {}, "Peak of each category"),
      element("thead", {}, element("tr", {}, element("th"), ...columns.map((category) =>
        element("th", { scope: "col", textContent: category })))),
      element("tbody", {}, ...lines)));
  }

  function render() {
    const panel = byId("memory");
    const { rows } = known;
    const ranks = [...new Set(rows.map(([of]) => of))].sort((a, b) => a - b);
    if (!ranks.includes(rank)) rank = ranks[0] ?? 0;
    const runChoice = element("select", { onchange: ({ target }) => { run = Number(target.value); load(); } });
    fillSelect(runChoice, chosenRuns().map(({ id }) => [id, runTitle(id)]), run);
    const rankChoice = element("select", { onchange: ({ target }) => { rank = Number(target.value); render(); } });
    fillSelect(rankChoice, ranks.map((of) => [of, of]), rank);
    const bar = element("div", { class: "bar" }, element("label", {}, "Run ", runChoice),
                        element("label", {}, "Rank ", rankChoice));
    const empty = (text) => element("p", { class: "empty" }, text);
    if (!rows.length) return panel.replaceChildren(bar, empty("The log has no memory rows of this run."));
    const all = barsOf(rows);
    if (!all.length) {
      return panel.replaceChildren(bar, empty("The log has only the peaks of this run."), peaks(rows));
    }
    const bars = all.slice(-MOST_BARS);
    const categories = [...CATEGORIES, ...new Set(all.flatMap((one) => [...one.parts.keys()]))]
      .filter((category, i, list) => list.indexOf(category) === i && all.some((one) => one.parts.get(category) > 0));
    const legend = element("div", { class: "legend" }, ...categories.map((category) =>
      element("span", {}, element("i", { style: { background: color(category) } }), category)));
    const note = element("p", { class: "hint" }, bars.length < all.length
      ? `The last ${MOST_BARS} of ${all.length} bars.`
      : "Each bar is the peak of a phase, at a step where the phase was new or had grown.");
    panel.replaceChildren(bar, note, element("div", { class: "wide", tabindex: 0, role: "region",
                                                      "aria-label": "Bars of memory" }, drawing(bars, categories)),
                          legend, peaks(rows));
  }

  async function load() {
    if (state.tab !== "memory") return;
    const chosen = chosenRuns().map(({ id }) => id);
    if (!chosen.includes(run)) run = chosen[0] ?? null;
    if (run === null) return byId("memory").replaceChildren(element("p", { class: "empty" }, "No run is chosen."));
    const answer = await source.memory(run);
    if (answer.run !== run) return;
    const isSame = known && known.run === run && known.rows.length === answer.rows.length;
    if (isSame && byId("memory").children.length > 1) return;
    known = answer;
    render();
  }

  function start() {
    whenChanged(["tab", "chosen"], () => { known = null; return load(); });
    whenChanged(["runs"], atMostEvery(5000, load));
  }
  return { start };
})();
