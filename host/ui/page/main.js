// Startup, tabs and the refresh loop.
"use strict";

const INTERVAL = 1000, INTERVAL_HIDDEN = 10000;  // milliseconds; the second in a hidden tab
let cursors = {};

function showState(text, trouble = false) {
  byId("state").textContent = text;
  byId("state").classList.toggle("trouble", trouble);
}

function showTab() {
  for (const [tab] of TABS) {
    byId(tab).hidden = tab !== state.tab;
    const button = byId(`tab-${tab}`);
    button.setAttribute("aria-selected", tab === state.tab);
    button.tabIndex = tab === state.tab ? 0 : -1;
  }
}

function makeTabs() {
  byId("tabs").replaceChildren(...TABS.map(([tab, title]) => element("button", {
    type: "button", id: `tab-${tab}`, role: "tab", "aria-controls": tab, onclick: () => change({ tab }),
  }, title)));
  byId("tabs").addEventListener("keydown", ({ key }) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!by) return;
    const place = TABS.findIndex(([tab]) => tab === state.tab);
    const [tab] = TABS[(place + by + TABS.length) % TABS.length];
    change({ tab });
    byId(`tab-${tab}`).focus();
  });
  whenChanged(["tab"], showTab);
}

/** Loads all runs; initially chooses the newest few, unless the address names runs. */
async function loadRuns(changes = {}) {
  const [answer, configs] = await Promise.all([source.runs(), source.configs()]);
  cursors = answer;
  if (!location.hash.includes("metric=")) changes = { ...changes, metrics: metricsAtFirst(answer.names) };
  const there = new Set(answer.runs.map((run) => run.id));
  const chosen = location.hash.includes("runs=") ? [...state.chosen].filter((id) => there.has(id))
    : source.live ? answer.runs.filter((run) => run.resumed_by === null && !run.archived).slice(0, CHOSEN_AT_FIRST)
      .map((run) => run.id)
    : [...there];
  byId("about").textContent = source.live ? answer.database : `${answer.database}, as of ${answer.made}`;
  if (!source.live) showState(`report by wmtp-host ${answer.program}`);
  document.title = source.live ? "wmtp-host" : `wmtp-host: ${answer.runs.map((run) => run.name).join(", ")}`;
  change({ ...changes, ...knownConfigs(configs), runs: answer.runs, names: answer.names, chosen: new Set(chosen),
           tab: state.tab });
}

const knownConfigs = ({ keys, quantities, why_no_difference: whyNoDifference }) =>
  ({ configs: keys, quantities, whyNoDifference });

async function loadConfigs() { change(knownConfigs(await source.configs())); }

function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  change({ theme: document.documentElement.dataset.theme });
}

async function copyLink() {
  try {
    // Without the right to edit.
    await navigator.clipboard.writeText(location.origin + location.pathname + location.hash);
    byId("copy-link").textContent = "Copied";
  } catch {  // a browser may refuse; the address bar has the link
    byId("copy-link").textContent = "See address bar";
  }
  setTimeout(() => { byId("copy-link").textContent = "Copy link"; }, 1500);
}

async function refresh() {
  const answer = await source.refresh(cursors, Curves.view());
  if (answer.reset) return loadRuns();
  cursors = answer;
  const changes = {};
  if (answer.runs.length) {
    const rows = new Map(state.runs.map((run) => [run.id, run]));
    for (const run of answer.runs) rows.set(run.id, run);
    changes.runs = [...rows.values()].sort((a, b) => b.id - a.id);
    if (answer.runs.some((run) => !state.runs.some(({ id }) => id === run.id))) setTimeout(loadConfigs);
    if (!state.runs.length) changes.chosen = new Set(answer.runs.slice(0, CHOSEN_AT_FIRST).map((run) => run.id));
  }
  if (answer.names.length !== state.names.length) {
    changes.names = answer.names;
    if (state.metrics.join() === metricsAtFirst(state.names).join()) changes.metrics = metricsAtFirst(answer.names);
  }
  if (Object.keys(changes).length) change(changes);
  Events.append(answer.events);
  await Curves.append(answer.new);
}

async function follow() {
  try {
    await refresh();
    const running = state.runs.filter((run) => run.status === "running").length;
    showState(running ? `live, ${running} running` : "live, none running");
  } catch (error) {
    showState(`no answer (${error.message}); retrying`, true);
  }
  setTimeout(follow, document.hidden ? INTERVAL_HIDDEN : INTERVAL);
}

/** Handles a link to this page opened in the same tab, or an edited address. */
addEventListener("hashchange", async () => {
  readAddress();
  await loadRuns({ ...state });
});

/** Shows a failed request in the status line; the page keeps its content. */
addEventListener("unhandledrejection", ({ reason }) => showState(String(reason?.message ?? reason), true));

async function start() {
  readAddress();
  makeTabs();
  byId("theme").addEventListener("click", toggleTheme);
  byId("copy-link").addEventListener("click", copyLink);
  for (const part of [RunTable, Curves, Parameters, Differences, RunPage, Memory, Heads, Tokens, Events, Studies])
    part.start();
  showTab();
  try {
    await loadRuns();
  } catch (error) {
    showState(error.message, true);
  }
  if (source.live) setTimeout(follow, INTERVAL);
}

start();
