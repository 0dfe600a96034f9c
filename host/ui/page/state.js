// The user's choices. Parts of the page read `state`, change it with `change`, and listen with `whenChanged`. The
// choices are stored in the address after '#', so that they can be bookmarked and shared.
"use strict";

/** The charts of a new page. The loss of head 1 is the one that is comparable between most runs. */
const metricsAtFirst = (names) => [names.includes("valid/ce_head_1") ? "valid/ce_head_1" : "valid/loss", "train/loss",
                                   "perf/tokens_per_second"];

const state = {
  runs: [],             // rows of v_runs, newest first
  names: [],            // of all metrics
  chosen: new Set(),    // numbers of runs
  metrics: metricsAtFirst([]),
  smoothing: 0,
  axis: "step",
  logarithmic: false,
  markEvents: true,
  group: "",            // of curves: "", "name" or a config key ("sweep" is one)
  baseline: null,       // number of the run that is subtracted from all curves
  columns: [],          // config keys shown in the table
  filter: "",           // of the table
  sort: "id",           // column of the table
  down: true,           // sorted downwards
  allRuns: false,       // lists segments and archived runs
  run: null,            // number of the run on the page of one run
  configs: {},          // config key -> {number of run: value}, for keys that differ between runs
  quantities: {},       // metric -> {number of run: number of what the metric measures there}, if runs differ
  whyNoDifference: "",  // the sentence for metrics that are not the same quantity
  tab: "curves",
  events: [],           // of the chosen runs
};

const CHOSEN_AT_FIRST = 5;
const TABS = [["curves", "Curves"], ["parameters", "Parameters"], ["differences", "Differences"], ["run", "Run"],
              ["memory", "Memory"], ["heads", "Heads"], ["tokens", "Tokens"], ["events", "Events"],
              ...(source.live ? [["studies", "Studies"]] : [])];  // a report has only its runs
const AXES = ["step", "time", "tokens"];

const listeners = [];
/** Calls the listener when one of these keys of `state` changes. */
function whenChanged(keys, listener) { listeners.push({ keys, listener }); }

function change(changes) {
  Object.assign(state, changes);
  writeAddress();
  for (const { keys, listener } of listeners) if (keys.some((key) => key in changes)) listener();
}

/** Limits the frequency of an action, for requests that an active run would repeat every second. */
function atMostEvery(milliseconds, action) {
  let last = -Infinity;
  return () => {
    if (performance.now() - last < milliseconds) return;
    last = performance.now();
    return action();
  };
}

/** What a metric measures in a run: only equal quantities may be compared (the rule of `runs compare`). */
const quantityOf = (run, metric) => state.quantities[metric]?.[run] ?? 0;
const areComparable = (runs, metric) => new Set(runs.map((run) => quantityOf(run, metric))).size <= 1;

const chosenRuns = () => state.runs.filter((run) => state.chosen.has(run.id));
/** The value of a config key in a run, null if it has none. */
const configOf = (run, key) => state.configs[key]?.[run] ?? null;
/** The shown name of a config key: "pipeline.keep" -> "keep", unless another key has the same last part. */
const shortKey = (key) => {
  const last = key.split(".").at(-1);
  return Object.keys(state.configs).filter((other) => other.split(".").at(-1) === last).length > 1 ? key : last;
};
/** "12 rho1" */
const runTitle = (id) => `${id} ${state.runs.find((run) => run.id === id)?.name ?? ""}`;

let ownAddress = null;  // location.hash as last read or written here; any other value is a link whose event is pending

function writeAddress() {
  if (location.hash !== ownAddress) return;
  const kept = new URLSearchParams({ runs: [...state.chosen].join(","), tab: state.tab });
  for (const name of state.metrics) kept.append("metric", name);
  if (state.smoothing) kept.set("smoothing", state.smoothing);
  if (state.axis !== "step") kept.set("axis", state.axis);
  if (state.logarithmic) kept.set("log", "1");
  if (!state.markEvents) kept.set("events", "0");
  if (state.group) kept.set("group", state.group);
  if (state.baseline) kept.set("baseline", state.baseline);
  for (const key of state.columns) kept.append("column", key);
  if (state.filter) kept.set("filter", state.filter);
  if (state.sort !== "id" || !state.down) kept.set("sort", `${state.down ? "-" : ""}${state.sort}`);
  if (state.allRuns) kept.set("all", "1");
  if (state.tab === "run" && state.run) kept.set("run", state.run);
  history.replaceState(null, "", `#${kept}`);
  ownAddress = location.hash;
}

/** Missing keys get their default; missing runs are chosen by loadRuns. */
function readAddress() {
  ownAddress = location.hash;
  const kept = new URLSearchParams(location.hash.slice(1));
  if (kept.has("runs")) state.chosen = new Set(kept.get("runs").split(",").filter(Boolean).map(Number));
  state.metrics = kept.has("metric") ? kept.getAll("metric") : metricsAtFirst(state.names);
  state.tab = TABS.some(([tab]) => tab === kept.get("tab")) ? kept.get("tab") : "curves";
  const smoothing = Number(kept.get("smoothing"));
  state.smoothing = source.smoothings.includes(smoothing) ? smoothing : 0;
  state.axis = AXES.includes(kept.get("axis")) ? kept.get("axis") : "step";
  state.group = kept.get("group") ?? "";
  state.baseline = Number(kept.get("baseline")) || null;
  state.columns = kept.getAll("column");
  state.filter = kept.get("filter") ?? "";
  const sort = kept.get("sort") || "-id";
  state.down = sort.startsWith("-");
  state.sort = sort.replace(/^-/, "");
  state.allRuns = kept.get("all") === "1";
  state.run = Number(kept.get("run")) || null;
  state.logarithmic = kept.get("log") === "1";
  state.markEvents = kept.get("events") !== "0";
}
