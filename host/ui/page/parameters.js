// How a result depends on the configuration: a scatter plot over one key, and parallel coordinates over several,
// coloured from the smallest result (blue) to the largest (orange). Shows the listed runs; a click chooses a run.
"use strict";

const Parameters = (() => {
  const RESULTS = [["valid_head_1", "valid loss, head 1"], ["best_valid_head_1", "best valid loss, head 1"],
                   ["valid_loss", "valid loss"], ["best_valid_loss", "best valid loss"], ["train_loss", "train loss"],
                   ["tokens_per_second", "tokens/s"]];
  const LOGARITHMIC_FROM = 30;  // the largest value over the smallest
  const WIDTH = 900, HEIGHT = 320, LEFT = 70, RIGHT = 20, TOP = 26, BOTTOM = 44, MOST_AXES = 8;
  const chosen = { key: "", result: "" };

  /** Places values from 0 to 1: numbers by size or, if they span a large factor, by logarithm; texts in
      alphabetic order. */
  function scaleOf(values) {
    const known = values.filter((value) => value !== null);
    if (known.every((value) => typeof value === "number")) {
      const low = Math.min(...known), high = Math.max(...known);
      const [at, back] = low > 0 && high / low >= LOGARITHMIC_FROM ? [Math.log, Math.exp] : [(x) => x, (x) => x];
      const marks = low === high ? [low] : [low, back((at(low) + at(high)) / 2), high];
      return { place: (value) => (high > low ? (at(value) - at(low)) / (at(high) - at(low)) : 0.5), marks };
    }
    const texts = [...new Set(known.map(String))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return { place: (value) => (texts.length > 1 ? texts.indexOf(String(value)) / (texts.length - 1) : 0.5),
             marks: texts.slice(0, 12) };
  }

  const choose = (id) => {
    const all = new Set(state.chosen);
    if (!all.delete(id)) all.add(id);
    change({ chosen: all });
  };
  const emphasis = (id) => (state.chosen.size === 0 || state.chosen.has(id) ? 1 : 0.3);
  const describe = (run, values) =>
    `${runTitle(run.id)}: ${values.map(([name, value]) => `${name} ${shownNumber(value)}`).join(", ")}`;

  function scatter(runs, key, result) {
    const title = RESULTS.find(([column]) => column === result)[1];
    const points = runs.map((run) => [run, configOf(run.id, key), run[result]])
      .filter(([, x, y]) => x !== null && typeof y === "number");
    const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", id: "scatter",
                               "aria-label": `${title} over ${key}` });
    if (!points.length) return element("p", { class: "empty" }, "No listed run has both values.");
    const across = scaleOf(points.map(([, x]) => x)), down = scaleOf(points.map(([, , y]) => y));
    const px = (x) => LEFT + across.place(x) * (WIDTH - LEFT - RIGHT);
    const py = (y) => HEIGHT - BOTTOM - down.place(y) * (HEIGHT - TOP - BOTTOM);
    for (const y of down.marks) {
      svg.append(shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(y), y2: py(y) }),
                 shape("text", { x: LEFT - 6, y: py(y) + 4, "text-anchor": "end" }, shownTick(y)));
    }
    for (const x of across.marks) {
      svg.append(shape("text", { x: px(x), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" },
                       typeof x === "number" ? shownTick(x) : x));
    }
    svg.append(shape("text", { x: LEFT, y: 14 }, title),
               shape("text", { x: WIDTH - RIGHT, y: HEIGHT - 8, "text-anchor": "end" }, key));
    for (const [run, x, y] of points) {
      const point = shape("circle", { class: "point", cx: px(x), cy: py(y), r: 5,
                                      fill: runColor(run.id, emphasis(run.id)), "data-run": run.id },
                          shape("title", {}, describe(run, [[key, x], [title, y]])));
      point.addEventListener("click", () => choose(run.id));
      svg.append(point);
    }
    return svg;
  }

  function coordinates(runs, keys, result) {
    const title = RESULTS.find(([column]) => column === result)[1];
    const axes = [...keys.map((key) => [key, (run) => configOf(run.id, key)]), [title, (run) => run[result]]];
    const drawn = runs.filter((run) => axes.every(([, value]) => value(run) !== null));
    if (!drawn.length) return element("p", { class: "empty" },
      `No listed run has all of ${axes.map(([name]) => name).join(", ")}. The menu Columns chooses other keys.`);
    const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", id: "coordinates",
                               "aria-label": `Parallel coordinates of ${axes.map(([name]) => name).join(", ")}` });
    const scales = axes.map(([, value]) => scaleOf(drawn.map(value)));
    const px = (axis) => LEFT + (axis / Math.max(1, axes.length - 1)) * (WIDTH - 2 * LEFT);
    const py = (axis, value) => HEIGHT - BOTTOM - scales[axis].place(value) * (HEIGHT - TOP - BOTTOM);
    axes.forEach(([name], axis) => {
      svg.append(shape("line", { class: "grid", x1: px(axis), x2: px(axis), y1: TOP, y2: HEIGHT - BOTTOM }),
                 shape("text", { x: px(axis), y: HEIGHT - 12 - (axis % 2) * 14, "text-anchor": "middle" }, name));
      for (const value of scales[axis].marks) {
        svg.append(shape("text", { x: px(axis) + 4, y: py(axis, value) - 3 },
                         typeof value === "number" ? shownTick(value) : value));
      }
    });
    const last = scales.length - 1;
    for (const run of drawn) {
      const hue = 215 - 190 * scales[last].place(run[result]);
      const line = shape("polyline", {
        class: "coordinate", stroke: `hsla(${hue}, 75%, ${isDark() ? 60 : 45}%, ${emphasis(run.id)})`,
        "data-run": run.id, points: axes.map(([, value], axis) => `${px(axis)},${py(axis, value(run))}`).join(" "),
      }, shape("title", {}, describe(run, axes.map(([name, value]) => [name, value(run)]))));
      line.addEventListener("click", () => choose(run.id));
      svg.append(line);
    }
    return svg;
  }

  function render() {
    if (state.tab !== "parameters") return;
    const panel = byId("parameters"), runs = RunTable.shown();
    const keys = Object.keys(state.configs).filter((key) => key !== "sweep");
    if (!keys.length) return panel.replaceChildren(
      element("p", { class: "empty" }, "The configurations of all runs are equal."));
    if (!keys.includes(chosen.key)) chosen.key = keys.find((key) => key.startsWith("pipeline.")) ?? keys[0];
    if (!chosen.result) chosen.result = runs.some((run) => run.valid_head_1 !== null) ? "valid_head_1" : "valid_loss";
    const choice = (name, values, id) => {
      const select = element("select", { id, onchange: ({ target }) => { chosen[name] = target.value; render(); } });
      fillSelect(select, values, chosen[name]);
      return select;
    };
    const axes = (state.columns.length ? state.columns : keys).slice(0, MOST_AXES);
    const focused = document.activeElement?.id;
    panel.replaceChildren(
      element("div", { class: "bar" },
        element("label", {}, "Result ", choice("result", RESULTS, "parameter-result")),
        element("label", {}, "over ", choice("key", keys.map((key) => [key, key]), "parameter-key")),
        element("span", { class: "hint" },
                `${counted(runs.length, "listed run")}. Below, the keys chosen under Columns are axes.`)),
      element("div", { class: "wide" }, scatter(runs, chosen.key, chosen.result)),
      element("div", { class: "wide" }, coordinates(runs, axes, chosen.result)));
    if (focused) byId(focused)?.focus();
  }

  function start() {
    whenChanged(["tab", "chosen", "configs", "columns", "filter", "theme"], render);
    whenChanged(["runs"], atMostEvery(5000, render));
  }
  return { scaleOf, start };
})();
