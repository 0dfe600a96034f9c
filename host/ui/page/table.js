// The table of runs: filtered by words and comparisons, sorted by a column. Runs are selected here.
"use strict";

const RunTable = (() => {
  const COLUMNS = [  // column of v_runs, title, formatting of a cell
    ["id", "run", String], ["name", "name", String], ["pipeline", "pipeline", String], ["adapter", "adapter", String],
    ["status", "status", String], ["steps", "steps", shownNumber], ["valid_head_1", "valid, head 1", shownNumber],
    ["best_valid_head_1", "best, head 1", shownNumber], ["valid_loss", "valid loss", shownNumber],
    ["best_valid_loss", "best valid", shownNumber], ["train_loss", "train loss", shownNumber],
    ["tokens_per_second", "tokens/s", shownNumber], ["seconds", "took", shownSeconds],
    ["started_at", "started (UTC)", (time) => String(time).replace("T", " ").replace("Z", "")],
    ["world_size", "ranks", shownNumber], ["strategy", "strategy", String], ["precision", "precision", String],
    ["seed", "seed", String], ["tags", "tags", String], ["note", "note", String],
  ];
  const SECONDARY = new Set(["pipeline", "adapter", "steps", "train_loss", "best_valid_head_1", "best_valid_loss",
                             "tokens_per_second", "seconds", "started_at", "world_size", "strategy", "precision",
                             "seed", "tags", "note"]);
  const LOSSES = { valid_loss: "valid/loss", best_valid_loss: "valid/loss", train_loss: "train/loss" };
  let haveHeads = false;  // some run has a loss of head 1, by which runs are judged
  const isAbsent = (column) => (haveHeads ? column === "best_valid_loss" : column.endsWith("valid_head_1"));
  const isSecondary = (column) => SECONDARY.has(column) || (haveHeads && column === "valid_loss");
  /** The columns, then the chosen config keys. */
  const columns = () => [...COLUMNS.filter(([column]) => !isAbsent(column)),
                         ...state.columns.map((key) => [key, shortKey(key), shownNumber])];
  const valueOf = (run, column) => (column in run ? run[column] : configOf(run.id, column));
  const MOST_ROWS = 200;  // until the user asks for all: a browser needs a millisecond for each
  let allRows = false;
  const byLetters = new Intl.Collator();
  const COMPARISON = /^([a-z0-9_.]+)(<=|>=|<|>|=)(.+)$/;
  /** The column or config key that a filter names: "keep" is "pipeline.keep". */
  const columnNamed = (run, name) => (name in run || name in state.configs ? name
    : Object.keys(state.configs).find((key) => key.endsWith(`.${name}`)));

  /** Every word of the filter must match: `column<number`, `key=text` of the config, or a substring of any cell. */
  function passes(run, filter) {
    return filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
      const [, name, sign, wanted] = word.match(COMPARISON) ?? [];
      const column = name === undefined ? undefined : columnNamed(run, name);
      if (column !== undefined) {
        const value = valueOf(run, column);
        if (value === null) return false;
        if (sign === "=") return String(value).toLowerCase() === wanted || Number(value) === Number(wanted);
        const [a, b] = [Number(value), Number(wanted)];
        return { "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b }[sign];
      }
      return Object.values(run).some(
        (value) => typeof value !== "object" && String(value).toLowerCase().includes(word));
    });
  }

  function compare(a, b) {
    const [x, y] = [valueOf(a, state.sort), valueOf(b, state.sort)];
    if (x === y) return b.id - a.id;
    if (x === null || y === null) return x === null ? 1 : -1;  // rows without a value come last in both directions
    const order = typeof x === "number" && typeof y === "number" ? x - y : byLetters.compare(String(x), String(y));
    return state.down ? -order : order;
  }

  /** Segments that a later run continues, and archived runs, are part of the list on request. */
  const isListed = (run) => state.allRuns || (run.resumed_by === null && !run.archived);
  const shown = () => state.runs.filter((run) => isListed(run) && passes(run, state.filter)).sort(compare);

  function choose(ids, chosen) {
    const all = new Set(state.chosen);
    for (const id of ids) chosen ? all.add(id) : all.delete(id);
    change({ chosen: all });
  }

  function sortBy(column) {
    change({ sort: column, down: state.sort === column ? !state.down : column === "id" || column === "started_at" });
  }

  /** Opens the page of one run, which then is one of the chosen runs. */
  const open = (id) => change({ tab: "run", run: id, chosen: new Set([...state.chosen, id]) });

  function head(runs) {
    const all = element("input", {
      type: "checkbox", title: "Choose all shown runs", "aria-label": "Choose all shown runs",
      checked: runs.length > 0 && runs.every((run) => state.chosen.has(run.id)),
      onchange: (event) => choose(runs.map((run) => run.id), event.target.checked),
    });
    const ids = runs.map((run) => run.id);
    const titles = columns().map(([column, title]) => {
      const sorted = state.sort === column;
      const differs = column in LOSSES && !areComparable(ids, LOSSES[column]);
      const mark = differs ? element("span", { class: "mark" }, " ≠") : "";
      const button = element("button", { type: "button", onclick: () => sortBy(column), dataset: { sort: column } },
                             title, mark,
                             element("span", { "aria-hidden": "true" }, sorted ? (state.down ? " ▾" : " ▴") : ""));
      return element("th", { scope: "col", class: isSecondary(column) ? "secondary" : "",
                             title: differs ? `not comparable between these runs: ${state.whyNoDifference}` : column,
                             "aria-sort": sorted ? (state.down ? "descending" : "ascending") : "none" }, button);
    });
    return element("thead", {}, element("tr", {}, element("th", { scope: "col" }, all), ...titles));
  }

  function line(run) {
    const chosen = state.chosen.has(run.id);
    const box = element("input", { type: "checkbox", checked: chosen, "aria-label": `Choose run ${run.id} ${run.name}`,
                                   onchange: (event) => choose([run.id], event.target.checked) });
    box.style.accentColor = runColor(run.id);
    const cells = columns().map(([column, , show]) => {
      const value = valueOf(run, column);
      const cell = element("td", { class: typeof value === "number" || value === null ? "number" : "" });
      if (column === "name") {
        cell.append(element("button", { type: "button", title: "Open the page of this run", textContent: value,
                                        onclick: (event) => { event.stopPropagation(); open(run.id); } }));
      } else {
        cell.textContent = value === null ? "–" : show(value);
      }
      if (isSecondary(column)) cell.classList.add("secondary");
      if (column === "name" && run.segments > 1) {
        cell.append(` (${run.segments} segments)`);
        cell.title = `continues run ${run.parent_run}`;
      }
      if (column === "status") cell.className = `status ${run.status}`;
      if (column === "status" && run.log_incomplete) {
        cell.textContent += " *";
        cell.title = "rows are missing from the log; they are in the .spool file in its folder";
      }
      return cell;
    });
    const row = element("tr", { class: chosen ? "chosen" : "", dataset: { run: run.id } },
                        element("td", {}, box), ...cells);
    row.style.setProperty("--run", chosen ? runColor(run.id) : "transparent");
    row.addEventListener("click", (event) => {
      if (event.target !== box) choose([run.id], !state.chosen.has(run.id));
    });
    return row;
  }

  /** A last row, if runs are left out. */
  function more(runs) {
    if (allRows || runs.length <= MOST_ROWS) return [];
    const show = () => { allRows = true; render(); };
    return [element("tr", { class: "more" }, element("td", { colSpan: columns().length + 1 },
      element("button", { type: "button", onclick: show }, `Show ${counted(runs.length - MOST_ROWS, "more run")}`)))];
  }

  function render() {
    const runs = shown();
    haveHeads = state.runs.some((run) => run.valid_head_1 !== null);
    const focused = document.activeElement?.closest?.("#run-table tr")?.dataset.run;
    const part = document.activeElement?.localName;
    const sorted = document.activeElement?.dataset?.sort;
    byId("run-table").replaceChildren(head(runs), element("tbody", {},
      ...runs.slice(0, allRows ? runs.length : MOST_ROWS).map(line), ...more(runs)));
    const hidden = state.runs.filter((run) => !isListed(run)).length;
    byId("counts").textContent =
      `${runs.length} of ${counted(state.runs.length - hidden, "run")}, ${state.chosen.size} chosen`;
    if (focused) byId("run-table").querySelector(`tr[data-run="${focused}"] ${part}`)?.focus();
    if (sorted) byId("run-table").querySelector(`button[data-sort="${sorted}"]`)?.focus();
  }

  function columnList() {
    byId("column-list").replaceChildren(...Object.keys(state.configs).map((key) => element(
      "label", { dataset: { key } },
      element("input", { type: "checkbox", checked: state.columns.includes(key), onchange: ({ target }) => change({
        columns: target.checked ? [...state.columns, key] : state.columns.filter((one) => one !== key),
      }) }), ` ${key}`)));
  }

  function start() {
    byId("filter").addEventListener("input", () => change({ filter: byId("filter").value }));
    byId("all-runs").addEventListener("change", () => change({ allRuns: byId("all-runs").checked }));
    byId("choose-none").addEventListener("click", () => change({ chosen: new Set() }));
    whenChanged(["runs", "chosen", "filter", "sort", "allRuns", "columns", "configs"], render);
    const showSettings = () => {
      if (byId("filter").value !== state.filter) byId("filter").value = state.filter;
      byId("all-runs").checked = state.allRuns;
    };
    whenChanged(["filter", "allRuns"], showSettings);
    showSettings();
    whenChanged(["configs", "columns"], columnList);
  }
  return { start, shown };
})();
