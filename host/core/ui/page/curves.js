// Curves of the chosen runs: one chart per chosen metric. Zooming one chart zooms all, and loads the visible part in
// full detail. Values that are not finite are marked at the edge.
"use strict";

const Curves = (() => {
  const charts = new Map();  // metric -> {card, graph, curves, legend}
  let range = null;          // [from, to] of x, or null for all
  let asked = 0;             // number of requests; answers to older ones are dropped

  /** A chart in a hidden panel has no size: nothing is loaded or drawn until the panel is visible. */
  const isVisible = () => state.tab === "curves";
  const view = () => ({
    runs: [...state.chosen], names: isVisible() ? state.metrics : [], smoothing: state.smoothing, x: state.axis,
    from: range?.[0], to: range?.[1],
    cells: Math.max(200, Math.round((byId("charts").clientWidth || 900) / 2)),
  });
  /** False until the curves for a new smoothing factor have arrived. */
  const areSmoothed = (curves) => state.smoothing > 0 && curves.every((curve) => curve.smooth);
  const xOf = (points) => (state.axis === "time" ? points.seconds : points.step);

  // ---- data

  async function load() {
    if (!isVisible()) return;
    const question = ++asked;
    const wanted = view();
    const { curves } = wanted.runs.length && wanted.names.length ? await source.curves(wanted) : { curves: [] };
    if (question !== asked) return;
    for (const name of [...charts.keys()]) if (!state.metrics.includes(name)) remove(name);
    for (const name of state.metrics) {
      const chart = charts.get(name) ?? add(name);
      chart.curves = curves.filter((curve) => curve.name === name);
      draw(name);
    }
  }

  /** Appends new points from a refresh; skips known ones. */
  function append(newPoints) {
    const touched = new Set();
    for (const { run, name, step, seconds, value, smooth } of newPoints) {
      const curve = charts.get(name)?.curves.find((one) => one.run === run);
      if (!curve) return load();
      const last = Math.max(curve.raw.step.at(-1) ?? -1, curve.not_finite.step.at(-1) ?? -1);
      step.forEach((at, i) => {
        if (at <= last) return;
        const add = (points, y) => { points.step.push(at); points.seconds.push(seconds[i]); points.value.push(y); };
        const finite = typeof value[i] === "number";
        add(finite ? curve.raw : curve.not_finite, value[i]);
        if (finite && curve.smooth) add(curve.smooth, smooth[i]);
        curve.points += 1;
      });
      touched.add(name);
      if (curve.raw.step.length > 4 * view().cells) return load();  // reload a thinned curve
    }
    touched.forEach(draw);
  }

  /** [[x, y of column 1, ...], ...] for all curves of a chart: the raw ones, then the smoothed ones. Many runs use a
   *  common grid of half a pixel, since every x of one curve is a row for all. */
  function rowsOf(curves) {
    const columns = [...curves.map((curve) => curve.raw),
                     ...(areSmoothed(curves) ? curves.map((curve) => curve.smooth) : [])];
    const ends = columns.flatMap((points) => [xOf(points)[0], xOf(points).at(-1)]).filter((x) => x !== undefined);
    const [from, to] = range ?? [Math.min(...ends), Math.max(...ends)];
    const grid = curves.length > 12 ? (to - from) / (4 * view().cells) : 0;
    const rows = new Map();
    columns.forEach((points, column) => {
      xOf(points).forEach((x, i) => {
        const place = grid > 0 ? Math.round(x / grid) * grid : x;
        let row = rows.get(place);
        if (!row) rows.set(place, row = [place, ...new Array(columns.length).fill(null)]);
        row[column + 1] = points.value[i];
      });
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  // ---- drawing

  function add(name) {
    const legend = element("div", { class: "legend" });
    const plot = element("div", { class: "plot" });
    const close = element("button", {
      type: "button", class: "close", title: "Remove this chart", "aria-label": `Remove the chart of ${name}`,
      onclick: () => change({ metrics: state.metrics.filter((one) => one !== name) }),
    }, "×");
    const card = element("article", { class: "chart", dataset: { metric: name } },
                         element("h2", {}, element("span", { textContent: name }), close),
                         element("p", { class: "remarks" }), plot, legend);
    byId("charts").append(card);
    const chart = { card, plot, legend, graph: null, curves: [] };
    charts.set(name, chart);
    return chart;
  }

  function remove(name) {
    charts.get(name).graph?.destroy();
    charts.get(name).card.remove();
    charts.delete(name);
  }

  function remarks(curves) {
    const kinds = {};
    for (const kind of curves.flatMap((curve) => curve.not_finite.value)) kinds[kind] = (kinds[kind] ?? 0) + 1;
    const found = Object.entries(kinds).map(([kind, count]) => `${count} × ${kind}`);
    const texts = found.length ? [`not finite: ${found.join(", ")}`] : [];
    const low = curves.flatMap((curve) => curve.raw.value).filter((value) => value <= 0).length;
    if (state.logarithmic && low) texts.push(`${counted(low, "point")} at or below 0 have no logarithm`);
    return texts.join("; ");
  }

  function draw(name) {
    const chart = charts.get(name);
    const { curves, card, plot } = chart;
    card.querySelector(".remarks").textContent = remarks(curves);
    const data = rowsOf(curves);
    if (data.length === 0) {
      chart.graph?.destroy();
      chart.graph = null;
      const marked = curves.some((curve) => curve.not_finite.step.length);
      plot.replaceChildren(element("p", { class: "empty" },
                                   marked ? "No finite value." : "No values in the chosen runs."));
      legendOf(chart);
      return;
    }
    const smooth = areSmoothed(curves);
    const options = {
      file: data,
      labels: ["x", ...curves.map((curve) => `r${curve.run}`),
               ...(smooth ? curves.map((curve) => `s${curve.run}`) : [])],
      colors: [...curves.map((curve) => runColor(curve.run, smooth ? 0.28 : 1)),
               ...(smooth ? curves.map((curve) => runColor(curve.run)) : [])],
      logscale: state.logarithmic,
      dateWindow: range,
      gridLineColor: styleColor("--line"), axisLineColor: styleColor("--line"),
    };
    if (chart.graph) return chart.graph.updateOptions(options);
    plot.replaceChildren();
    chart.graph = new Dygraph(plot, data, {
      ...options, connectSeparatedPoints: true, legend: "never", strokeWidth: 1.4, axisLabelFontSize: 12, rightGap: 12,
      digitsAfterDecimal: 4, highlightCircleSize: 3, labelsKMB: false,
      axes: { x: { axisLabelFormatter: (x) => (state.axis === "time" ? shownSeconds(x) : shownTick(x)) },
              y: { axisLabelWidth: 62, axisLabelFormatter: (y) => shownTick(y) } },
      zoomCallback: (from, to) => zoom([from, to]),
      highlightCallback: (event, x, points) => legendOf(chart, x, points),
      unhighlightCallback: () => legendOf(chart),
      underlayCallback: (canvas, area, graph) => marks(canvas, area, graph, chart),
    });
    legendOf(chart);
  }

  /** Events as lines, values that are not finite as triangles: up for inf, down for -inf, a cross for nan. */
  function marks(canvas, area, graph, { curves }) {
    canvas.save();
    canvas.beginPath();
    canvas.rect(area.x, area.y, area.w, area.h);
    canvas.clip();
    if (state.markEvents) {
      const shown = new Set(curves.map((curve) => curve.run));
      canvas.setLineDash([3, 4]);
      for (const event of state.events) {
        const at = state.axis === "time" ? event.seconds : event.step;
        if (at === null || !shown.has(event.run)) continue;
        const x = graph.toDomXCoord(at);
        canvas.strokeStyle = event.level === "info" ? runColor(event.run, 0.45) : styleColor(`--${event.level}`);
        canvas.beginPath();
        canvas.moveTo(x, area.y);
        canvas.lineTo(x, area.y + area.h);
        canvas.stroke();
      }
      canvas.setLineDash([]);
    }
    for (const { run, not_finite: points } of curves) {
      canvas.strokeStyle = canvas.fillStyle = runColor(run);
      canvas.lineWidth = 1.5;
      xOf(points).forEach((at, i) => {
        const x = graph.toDomXCoord(at);
        const up = points.value[i] === "inf";
        const y = up ? area.y + 6 : area.y + area.h - 6;
        canvas.beginPath();
        if (points.value[i] === "nan") {
          canvas.moveTo(x - 4, y - 4); canvas.lineTo(x + 4, y + 4);
          canvas.moveTo(x - 4, y + 4); canvas.lineTo(x + 4, y - 4);
          canvas.stroke();
        } else {
          const to = up ? -5 : 5;
          canvas.moveTo(x - 5, y); canvas.lineTo(x + 5, y); canvas.lineTo(x, y + to);
          canvas.fill();
        }
      });
    }
    canvas.restore();
  }

  /** The legend below the chart: the runs by colour, with their values at the pointer. */
  function legendOf(chart, x, points = []) {
    const values = new Map(points.map((point) => [point.name, point.yval]));
    const kind = state.smoothing ? "s" : "r";
    const entries = chart.curves.slice(0, 40).map((curve) => {
      const value = values.get(kind + curve.run) ?? values.get(`r${curve.run}`);
      return element("span", {}, element("i", { style: { background: runColor(curve.run) } }),
                     runTitle(curve.run) + (value === undefined ? "" : `: ${shownNumber(value)}`));
    });
    if (chart.curves.length > 40) entries.push(element("span", {}, `and ${chart.curves.length - 40} more`));
    const near = x === undefined || !chart.graph || !state.markEvents ? [] : state.events.filter((event) => {
      const at = state.axis === "time" ? event.seconds : event.step;
      return at !== null && Math.abs(chart.graph.toDomXCoord(at) - chart.graph.toDomXCoord(x)) < 5;
    });
    const place = x === undefined ? [] :
      [element("b", {}, state.axis === "time" ? shownSeconds(x) : `step ${shownNumber(Math.round(x))}`)];
    const events = near.slice(0, 3).map((event) => element("em", {}, `${event.kind}: ${event.message}`));
    chart.legend.replaceChildren(...place, ...entries, ...events);
  }

  // ---- view

  function zoom(to) {
    range = to;
    for (const { graph } of charts.values()) graph?.updateOptions({ dateWindow: to });
    load();
  }

  function metricList() {
    const filter = element("input", { type: "search", placeholder: "Find a metric", "aria-label": "Find a metric" });
    const boxes = state.names.map((name) => element("label", { dataset: { name } }, element("input", {
      type: "checkbox", checked: state.metrics.includes(name),
      onchange: ({ target }) => change({
        metrics: target.checked ? [...state.metrics, name] : state.metrics.filter((one) => one !== name),
      }),
    }), ` ${name}`));
    filter.addEventListener("input", () => {
      for (const box of boxes) box.hidden = !box.dataset.name.includes(filter.value);
    });
    byId("metric-list").replaceChildren(filter, ...boxes);
  }

  function start() {
    const slider = byId("smoothing");
    slider.max = source.smoothings.length - 1;
    const showSettings = () => {
      slider.value = source.smoothings.indexOf(state.smoothing);
      byId("factor").textContent = state.smoothing;
      byId("axis").value = state.axis;
      byId("logarithmic").checked = state.logarithmic;
      byId("mark-events").checked = state.markEvents;
      for (const box of byId("metric-list").querySelectorAll("label"))
        box.firstChild.checked = state.metrics.includes(box.dataset.name);
    };
    slider.addEventListener("input", () => change({ smoothing: source.smoothings[slider.value] }));
    byId("axis").addEventListener("change", ({ target }) => change({ axis: target.value }));
    whenChanged(["axis"], () => { range = null; });
    byId("logarithmic").addEventListener("change", ({ target }) => change({ logarithmic: target.checked }));
    byId("mark-events").addEventListener("change", ({ target }) => change({ markEvents: target.checked }));
    document.addEventListener("pointerdown", ({ target }) => {
      if (!byId("metrics").contains(target)) byId("metrics").open = false;
    });
    byId("metrics").addEventListener("keydown", ({ key }) => {
      if (key !== "Escape") return;
      byId("metrics").open = false;
      byId("metrics").firstElementChild.focus();
    });
    byId("whole").addEventListener("click", () => zoom(null));
    byId("charts").addEventListener("dblclick", () => zoom(null), true);
    whenChanged(["names"], metricList);
    whenChanged(["smoothing", "axis", "logarithmic", "markEvents", "metrics"], showSettings);
    const drawAll = () => { if (isVisible()) for (const name of charts.keys()) draw(name); };
    whenChanged(["logarithmic", "markEvents", "events"], drawAll);
    whenChanged(["chosen", "metrics", "smoothing", "axis", "tab"], load);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    showSettings();
  }
  return { start, append, view, load, charts };
})();
