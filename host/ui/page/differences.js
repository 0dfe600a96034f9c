// Config differences of the chosen runs, by key; the whole config of a single run.
"use strict";

const Differences = (() => {
  async function render() {
    if (state.tab !== "differences") return;
    const panel = byId("differences");
    const chosen = chosenRuns().map((run) => run.id);
    if (!chosen.length) return panel.replaceChildren(element("p", { class: "empty" }, "No run is chosen."));
    const { runs, rows } = await source.params(chosen);
    const title = runs.length === 1 ? `Configuration of run ${runTitle(runs[0])}`
      : rows.length ? `${rows.length} keys differ` : "No differences.";
    const head = element("tr", {}, element("th", { scope: "col" }, "key"), ...runs.map((run) => {
      const cell = element("th", { scope: "col", textContent: runTitle(run) });
      cell.style.borderBottomColor = runColor(run);
      return cell;
    }));
    const lines = rows.map(({ key, values }) => element("tr", {}, element("th", { scope: "row", textContent: key }),
      ...values.map((value) => element("td", { textContent: value ?? "–", class: value === null ? "none" : "" }))));
    panel.replaceChildren(element("h2", { textContent: title }), element("div", { class: "table" },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines))));
  }
  return { start: () => whenChanged(["tab", "chosen"], render) };
})();
