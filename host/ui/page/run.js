// The page of one run: its results, row, segments, time of its ranks, checkpoints, the texts that it wrote during
// training, evaluations with answers, metrics and configuration.
"use strict";

const RunPage = (() => {
  let asked = 0;  // number of requests; answers to older ones are dropped

  const section = (title, rows, columns) =>
    (rows.length ? [element("h3", { textContent: title }), tableOf(rows, columns)] : []);

  function facts(run) {
    const rows = [["status", run.exit_code === null ? run.status : `${run.status} (exit ${run.exit_code})`],
                  ["started", `${run.started_at} (UTC), took ${shownSeconds(run.seconds)}`],
                  ["layout", `${counted(run.world_size, "rank")}, ${run.strategy}, ${run.precision}, ${run.device}`],
                  ["commit", run.git_commit || "none"], ["program", `${run.version} on ${run.host}`],
                  ["config hash", run.config_hash], ["tags", run.tags], ["note", run.note],
                  ["archived", run.archived && "hidden from lists"],
                  ["resumed", run.parent_run && `run ${run.parent_run}`],
                  ["continued by", run.resumed_by && `run ${run.resumed_by}`],
                  ["command", run.command],
                  ["repeat it", `wmtp-host runs show ${run.id} --toml > again.toml && wmtp-host run again.toml`]];
    return element("dl", {}, ...rows.filter(([, text]) => text).flatMap(([name, text]) =>
      [element("dt", { textContent: name }), element("dd", { textContent: text })]));
  }

  /** A dialog for the labels of a run. It is no part of the panel, which is drawn again while a run writes. */
  function edit(run) {
    const field = (title, input) => [element("label", {}, title, input), input];
    const [name, nameInput] = field("Name ", element("input", { value: run.name }));
    const [tags, tagsInput] = field("Tags ",
      element("input", { value: run.tags ?? "", placeholder: "separated by spaces" }));
    const [note, noteInput] = field("Note ", element("textarea", { value: run.note ?? "", rows: 4, cols: 60 }));
    const [archived, archivedInput] = field("Archived ",
      element("input", { type: "checkbox", checked: Boolean(run.archived) }));
    const refusal = element("p", { role: "alert" });
    const dialog = element("dialog", { id: "edit-run", onclose: () => dialog.remove() },
      element("h3", { textContent: `Run ${run.id}` }), name, tags, note, archived, refusal,
      element("div", { class: "bar" },
        element("button", { type: "button", id: "save-run", onclick: save }, "Save"),
        element("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
    async function save() {
      try {
        await source.label({ run: run.id, name: nameInput.value, tags: tagsInput.value, note: noteInput.value,
                             archived: archivedInput.checked });
      } catch (error) {
        refusal.textContent = error.message;
        return;
      }
      dialog.close();
      await refresh();
      await render();
    }
    document.body.append(dialog);
    dialog.showModal();
  }

  /** A row for each step, newest first, with a column for each prompt. */
  function samples(texts) {
    const rows = new Map();
    for (const { step, prompt, text } of texts) rows.set(step, { ...rows.get(step), step, [`text ${prompt}`]: text });
    const prompts = [...new Set(texts.map(({ prompt }) => prompt))];
    const shown = (text) => visible(text).replace(/(⏎\n){3,}/g, (lines) => `${"⏎".repeat(lines.length / 2)}\n`);
    return section("Samples", [...rows.values()],
                   [["step", "step", shownNumber],
                    ...prompts.map((prompt) => [`text ${prompt}`, shown(prompt), shown])]);
  }

  const METRIC_COLUMNS = [["name", "metric"], ["first", "first", shownNumber], ["last", "last", shownNumber],
                          ["lowest", "lowest", shownNumber], ["highest", "highest", shownNumber],
                          ["last_step", "last step", shownNumber]];
  const RESULTS = /^valid\/(loss|(ce|accept)_head_\d+|tokens_per_pass|exact_match)$|^train\/loss$/;
  const isResult = ({ name }) => RESULTS.test(name);
  const byValidation = (a, b) => Number(b.name.startsWith("valid/")) - Number(a.name.startsWith("valid/"));

  const BIN = /^valid\/(.+)\/calibration\/(\d)\/(tokens|value|outcome)$/;

  /** The reliability diagrams of the newest validation, by value head: {head, step, error, bins: [{bin, tokens, value,
   *  outcome}]}. */
  function calibrations(metrics) {
    const heads = new Map();
    for (const { name, last, last_step } of metrics) {
      const found = name.match(BIN);
      if (!found) continue;
      const [, head, bin, part] = found, one = heads.get(head) ?? { head, step: 0, bins: [] };
      heads.set(head, one);
      if (last_step > one.step) Object.assign(one, { step: last_step, bins: [] });
      if (last_step < one.step) continue;  // the bin has been empty since
      one.bins[bin] = { ...one.bins[bin], bin: Number(bin), [part]: last };
    }
    return [...heads.values()].map((one) => ({ ...one, bins: one.bins.filter(Boolean),
      error: metrics.find(({ name }) => name === `valid/${one.head}/calibration_error`)?.last }));
  }

  /** Points on the diagonal predict outcomes as often as they come; a point's area grows with its tokens. */
  function reliability({ head, step, error, bins }) {
    const SIDE = 260, LEFT = 40, TOP = 8, most = Math.max(...bins.map(({ tokens }) => tokens));
    const x = (value) => LEFT + SIDE * Math.min(1, Math.max(0, value)), y = (share) => TOP + SIDE * (1 - share);
    const svg = shape("svg", { width: LEFT + SIDE + 20, height: TOP + SIDE + 40, role: "img", class: "reliability",
      "aria-label": `Share of right answers by predicted value of ${head}; the table has the numbers` });
    svg.append(shape("rect", { x: LEFT, y: TOP, width: SIDE, height: SIDE, class: "frame" }),
               shape("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "diagonal" }));
    for (const tick of [0, 0.5, 1]) svg.append(
      shape("text", { x: x(tick), y: TOP + SIDE + 16, "text-anchor": "middle" }, String(tick)),
      shape("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
    svg.append(shape("text", { x: x(0.5), y: TOP + SIDE + 34, "text-anchor": "middle" }, "value"));
    for (const { bin, tokens, value, outcome } of bins) svg.append(
      shape("circle", { cx: x(value), cy: y(outcome), r: 3 + 9 * Math.sqrt(tokens / most), "data-bin": bin },
            shape("title", {}, `value ${shownNumber(value)}: right in ${shownNumber(outcome)} of ${
              counted(tokens, "token")}`)));
    const rows = bins.map((one) => ({ ...one, range: `${one.bin / 10} to ${(one.bin + 1) / 10}` }));
    return [element("h3", {}, `Calibration of ${head} at step ${shownNumber(step)}`),
            element("p", { class: "hint" }, `Expected calibration error ${shownNumber(error)}: on the diagonal, ` +
                                            "answers are right as often as the value says."),
            svg,
            tableOf(rows, [["range", "values"], ["tokens", "tokens", shownNumber], ["value", "mean value", shownNumber],
                           ["outcome", "right", shownNumber]])];
  }

  function details(run) {
    const ranks = Object.keys(run.rank_times[0] ?? {}).filter((key) => key !== "phase");
    return [
      ...section("Results", run.metrics.filter(isResult).sort(byValidation), METRIC_COLUMNS),
      ...calibrations(run.metrics).flatMap(reliability),
      element("h3", {}, "Run"), facts(run),
      ...section("Segments", run.segments > 1 ? run.segment_rows : [],
                 [["run", "run"], ["status", "status"], ["first_step", "first step"], ["last_step", "last step"],
                  ["started_at", "started"], ["ended_at", "ended"], ["world_size", "ranks"]]),
      ...section(`Time by rank${run.slowest ? `: ${run.slowest}` : ""}`, run.rank_times,
                 [["phase", "phase"], ...ranks.map((rank) => [rank, rank, shownSeconds])]),
      ...section("Checkpoints", run.checkpoints,
                 [["run", "run"], ["step", "step", shownNumber], ["state", "state"], ["bytes", "size", shownBytes],
                  ["path", "path"]]),
      ...samples(run.generations),
      ...section("Evaluations", run.evaluations,
                 [["id", "number"], ["suite", "suite"], ["temperature", "temperature"], ["problems", "problems"],
                  ["answers", "answers"], ["passed", "passed"], ["pass_at_1", "pass@1", shownNumber],
                  ["time", "time"]]),
      ...section("Answers", run.answers,
                 [["evaluation", "evaluation"], ["task", "problem"], ["sample", "sample"], ["verdict", "verdict"],
                  ["answer", "answer"], ["told", "output"]]),
      ...section("Losses on texts", run.text_losses,
                 [["texts", "texts"], ["head", "head"], ["tokens", "tokens", shownNumber],
                  ["loss", "loss", shownNumber], ["bits_per_byte", "bits per byte", shownNumber]]),
      ...section("Other metrics",
                 run.metrics.filter((metric) => !isResult(metric) && !BIN.test(metric.name)).sort(byValidation),
                 METRIC_COLUMNS),
      element("h3", {}, "Configuration"), element("pre", { textContent: run.resolved_toml }),
    ];
  }

  async function render() {
    if (state.tab !== "run") return;
    const panel = byId("run"), runs = chosenRuns();
    if (!runs.length) return panel.replaceChildren(element("p", { class: "empty" }, "No run is chosen."));
    const question = ++asked, shown = state.chosen.has(state.run) ? state.run : runs[0].id;
    const answer = await source.run(shown);
    if (question !== asked || state.tab !== "run") return;
    const select = element("select",
      { id: "run-shown", onchange: ({ target }) => change({ run: Number(target.value) }) });
    fillSelect(select, runs.map(({ id }) => [id, runTitle(id)]), shown);
    const bar = element("div", { class: "bar" }, element("label", {}, "Run ", select));
    if (source.editToken) bar.append(
      element("button", { type: "button", id: "edit", onclick: () => edit(answer) }, "Edit"));
    panel.replaceChildren(bar, ...details(answer));
  }

  return { start: () => {
    whenChanged(["tab", "chosen", "run"], render);
    whenChanged(["runs"], atMostEvery(5000, render));
  } };
})();
