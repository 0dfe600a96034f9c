// What studies found (docs/studies.md), as `wmtp-host study` last stored it in the log: their figures, and a table for
// each budget. The log may contain anything, so figures are images, which execute nothing.
"use strict";

const Studies = (() => {
  const COLUMNS = [["member", "member"], ["mean", "mean"], ["deviation", "±"], ["seeds", "seeds"],
                   ["difference", "difference"], ["low", "95% from"], ["high", "to"], ["p", "p"],
                   ["corrected_p", "Holm's p"], ["effect", "effect"], ["could_show", "detectable"], ["outcome", ""]];
  let studies = [];

  const image = (svg, alt) => element("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt });

  const outcomeOf = ({ verdict, diverged, missing }) => [
    verdict === "diverged" ? "" : verdict, diverged ? `diverged in ${counted(diverged, "seed")}` : "",
    missing ? `missing in ${counted(missing, "seed")}` : ""].filter(Boolean).join("; ");

  function tableOf(given, title) {
    const rows = given.map((row) => ({ ...row, outcome: outcomeOf(row) }));
    const line = (row) => element("tr", {}, ...COLUMNS.map(([key]) => (typeof row[key] === "number"
      ? element("td", { class: "number" }, shownNumber(row[key])) : element("td", {}, row[key] ?? ""))));
    return [element("h3", {}, title), element("div", { class: "table" }, element("table", {},
      element("thead", {}, element("tr", {}, ...COLUMNS.map(([, name]) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map(line))))];
  }

  /** By metric and budget, in the order of the report: the primary metric first. */
  function tablesOf(analysis) {
    const groups = new Map();
    for (const row of analysis) {
      const title = `${row.metric} at ${row.budget}`;
      groups.set(title, [...(groups.get(title) ?? []), row]);
    }
    return [...groups].flatMap(([title, rows]) => tableOf(rows, `${title}, ${rows[0].role}`));
  }

  function contentOf({ definition, plan, analysis }, { curves, differences }) {
    const { metric, better, seeds, control } = definition;
    const planned = Object.keys(plan.estimate ?? {}).length ? `planned ${plan.planned_at}, ` : "without a plan, ";
    const changes = (plan.changes ?? []).map((text) => element("li", {}, text));
    return [
      element("p", { class: "hint" }, `${metric} decides (${better} is better); seeds ${seeds.join(", ")}; differences `
        + `from ${control}; ${planned}begun ${plan.begun_at}.`),
      ...(changes.length ? [element("p", { class: "remarks" }, "Changed after the first run:"),
                            element("ul", { class: "remarks" }, ...changes)] : []),
      element("div", { class: "wide figures" }, image(differences, "Differences from the control with their intervals"),
              image(curves, "Curves of the members with bands over seeds")),
      ...tablesOf(analysis),
    ];
  }

  function shownStudy(row) {
    const made = new Date(row.made * 1000).toISOString().replace("T", " ").slice(0, 16);
    let content;
    try {
      content = contentOf(JSON.parse(row.report), row);
    } catch {  // somebody else's text
      content = [element("p", { class: "empty" }, "Its report in the log cannot be read.")];
    }
    return element("article", { class: "study" }, element("h2", {}, row.study),
                   element("p", { class: "hint" }, `as of ${made} UTC`), ...content);
  }

  function render() {
    if (state.tab !== "studies") return;
    byId("studies").replaceChildren(...(studies.length ? studies.map(shownStudy)
      : [element("p", { class: "empty" }, "No study has been trained in this log.")]));
  }

  const load = atMostEvery(5000, async () => {
    ({ studies } = await source.studies());
    render();
  });

  function start() {
    if (source.live) whenChanged(["tab", "runs"], () => { if (state.tab === "studies") load(); });
    whenChanged(["tab"], render);
  }
  return { start };
})();
