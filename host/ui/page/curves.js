// Curves of the chosen runs: one chart per chosen metric. Zooming one chart zooms all, and loads the visible part in
// full detail. Values that are not finite are marked at the edge.
"use strict";

const Curves = (() => {
  const charts = new Map();  // metric -> {card, graph, curves, legend}
  let range = null;          // [from, to] of x, or null for all
  let asked = 0;             // number of requests; answers to older ones are dropped

  /** A chart in a hidden panel has no size: nothing is loaded or drawn until the panel is visible. */
  const isVisible = () => state.tab === "curves";
  const baselines = () => (state.runs.some(({ id }) => id === state.baseline) ? [state.baseline] : []);
  const view = () => ({
    runs: [...new Set([...Lines.runs(), ...baselines()])],
    names: isVisible() ? state.metrics : [], smoothing: state.smoothing, x: state.axis,
    from: range?.[0], to: range?.[1],
    cells: Math.max(200, Math.round((byId("charts").clientWidth || 900) / 2)),
  });
  /** False until the curves for a new smoothing factor have arrived. */
  const areSmoothed = (curves) => state.smoothing > 0 && curves.every((curve) => curve.smooth);

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
      for (const curve of chart.curves) curve.loaded = curve.raw.step.length;
      draw(name);
      legendOf(chart);
    }
  }

  /** Appends new points from a refresh; skips known ones. */
  function append(newPoints) {
    const touched = new Set();
    for (const { run, name, step, seconds, tokens, value, smooth } of newPoints) {
      const curve = charts.get(name)?.curves.find((one) => one.run === run);
      if (!curve) return load();
      const last = Math.max(curve.raw.step.at(-1) ?? -1, curve.not_finite.step.at(-1) ?? -1);
      step.forEach((at, i) => {
        if (at <= last) return;
        const add = (points, y) => {
          points.step.push(at);
          points.seconds.push(seconds[i]);
          points.tokens.push(tokens[i]);
          points.value.push(y);
        };
        const finite = typeof value[i] === "number";
        add(finite ? curve.raw : curve.not_finite, value[i]);
        if (finite && curve.smooth) add(curve.smooth, smooth[i]);
        curve.points += 1;
        curve.last_step = at;
      });
      touched.add(name);
      if (curve.raw.step.length > curve.loaded + 2 * view().cells) return load();  // to downsample it
    }
    touched.forEach(draw);
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
                         element("h2", {}, element("span", { textContent: name }), element("span", { class: "tools" },
                           element("button", { type: "button", title: "Download as SVG",
                                               onclick: () => Download.saveSvg(name, charts.get(name).lines) }, "SVG"),
                           element("button", { type: "button", title: "Download as CSV", onclick: () =>
                             Download.saveCsv(name, charts.get(name).lines, charts.get(name).rows) }, "CSV")), close),
                         element("p", { class: "remarks" }), plot, legend);
    byId("charts").append(card);
    const chart = { card, plot, legend, graph: null, curves: [], lines: [], rows: [] };
    charts.set(name, chart);
    return chart;
  }

  function remove(name) {
    charts.get(name).graph?.destroy();
    charts.get(name).card.remove();
    charts.delete(name);
  }

  function remarks(curves, ofLines) {
    const kinds = {};
    for (const kind of curves.flatMap((curve) => curve.not_finite.value)) kinds[kind] = (kinds[kind] ?? 0) + 1;
    const found = Object.entries(kinds).map(([kind, count]) => `${count} × ${kind}`);
    const texts = [...ofLines, ...(found.length ? [`not finite: ${found.join(", ")}`] : [])];
    const low = curves.flatMap((curve) => curve.raw.value).filter((value) => value <= 0).length;
    if (state.logarithmic && low) texts.push(`${counted(low, "point")} at or below 0 have no logarithm`);
    return texts.join("; ");
  }

  function draw(name) {
    const chart = charts.get(name);
    const { curves, card, plot } = chart;
    const smooth = areSmoothed(curves);
    const { lines, remarks: ofLines } = Lines.of(name, curves, smooth);
    chart.lines = lines;
    card.querySelector(".remarks").textContent = remarks(curves, ofLines);
    const data = chart.rows = Lines.rowsOf(lines, range, view().cells);
    if (data.length === 0) {
      chart.graph?.destroy();
      chart.graph = null;
      const marked = curves.some((curve) => curve.not_finite.step.length);
      plot.replaceChildren(element("p", { class: "empty" },
                                   marked ? "No finite value." : "No values in the chosen runs."));
      legendOf(chart);
      return;
    }
    const options = {
      file: data,
      labels: ["x", ...lines.map(({ label }) => label)],
      colors: lines.map(({ label, run }) => runColor(run, smooth && label.startsWith("r") ? 0.28 : 1)),
      customBars: state.group !== "",
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

  /** x of an event; null where it has none. */
  const placeOf = (event) => (state.axis === "time" ? event.seconds : state.axis === "step" ? event.step : null);

  /** Events as lines, beginnings of segments as ticks, values that are not finite as triangles: up for inf, down for
      -inf, a cross for nan. */
  function marks(canvas, area, graph, { curves }) {
    canvas.save();
    canvas.beginPath();
    canvas.rect(area.x, area.y, area.w, area.h);
    canvas.clip();
    if (state.markEvents) {
      const shown = new Set(curves.map((curve) => curve.run));
      canvas.setLineDash([3, 4]);
      for (const event of state.events) {
        const at = placeOf(event);
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
    for (const { run, segments = [] } of state.markEvents && state.axis !== "tokens" ? curves : []) {
      canvas.strokeStyle = runColor(run, 0.5);
      for (const segment of segments) {
        const x = graph.toDomXCoord(state.axis === "time" ? segment.seconds : segment.step);
        canvas.strokeRect(x, area.y + area.h - 14, 0, 14);
        canvas.fillStyle = runColor(run);
        canvas.fillText(`run ${segment.run}`, x + 3, area.y + area.h - 4);
      }
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
    const named = chart.lines.filter(({ label }) => !label.startsWith("s"));
    const entries = named.slice(0, 40).map(({ label, run, title }) => {
      const value = values.get(label.replace("r", "s")) ?? values.get(label);
      return element("span", {}, element("i", { style: { background: runColor(run) } }),
                     title + (value === undefined ? "" : `: ${shownNumber(value)}`));
    });
    if (named.length > 40) entries.push(element("span", {}, `and ${named.length - 40} more`));
    const near = x === undefined || !chart.graph || !state.markEvents ? [] : state.events.filter((event) => {
      const at = placeOf(event);
      return at !== null && Math.abs(chart.graph.toDomXCoord(at) - chart.graph.toDomXCoord(x)) < 5;
    });
    const place = x === undefined ? [] :
      [element("b", {}, state.axis === "time" ? shownSeconds(x) : `${state.axis} ${shownNumber(Math.round(x))}`)];
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

  /** The choices of groups and baselines, which depend on the runs. */
  function fillChoices() {
    const keys = Object.keys(state.configs).filter((key) => key !== "name");
    fillSelect(byId("group"), [["", "none"], ["name", "name"], ...keys.map((key) => [key, key])], state.group);
    fillSelect(byId("baseline"), [["", "nothing"], ...view().runs.map((id) => [id, runTitle(id)])],
               state.baseline ?? "");
    const listed = RunTable.shown().length, used = Lines.runs().length;
    byId("group-hint").textContent = !state.group ? ""
      : `of ${used < listed ? `the first ${shownNumber(used)} of ` : "all "}${counted(listed, "listed run")}`;
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
    byId("group").addEventListener("change", ({ target }) => change({ group: target.value }));
    byId("baseline").addEventListener("change", ({ target }) => change({ baseline: Number(target.value) || null }));
    byId("axis").addEventListener("change", ({ target }) => change({ axis: target.value }));
    whenChanged(["axis"], () => { range = null; });
    byId("logarithmic").addEventListener("change", ({ target }) => change({ logarithmic: target.checked }));
    byId("mark-events").addEventListener("change", ({ target }) => change({ markEvents: target.checked }));
    document.addEventListener("pointerdown", ({ target }) => {
      for (const menu of document.querySelectorAll(".menu")) if (!menu.contains(target)) menu.open = false;
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
    whenChanged(["configs", "chosen", "runs", "group", "baseline", "filter", "allRuns"], fillChoices);
    const redrawAll = () => {  // dygraphs cannot turn bars on and off
      for (const chart of charts.values()) {
        chart.graph?.destroy();
        chart.graph = null;
      }
      drawAll();
    };
    whenChanged(["group"], redrawAll);
    whenChanged(["configs"], redrawAll);
    whenChanged(["logarithmic", "markEvents", "events", "baseline", "theme"], drawAll);
    whenChanged(["chosen", "metrics", "smoothing", "axis", "tab", "group", "baseline"], load);
    whenChanged(["filter", "allRuns"], () => { if (state.group) load(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    showSettings();
  }
  return { start, append, view, load, charts };
})();
