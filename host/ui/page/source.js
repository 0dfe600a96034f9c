// The source of the data: the program that serves this page, or the report that contains it. Both have the same
// interface (host/ui/page_data.hpp), so that the rest of the page does not depend on which one it is.
"use strict";

const MOST_NAMES = 100;  // of metrics in one request (host/ui/routes.cpp)

/** Requests data over HTTP. Each answer is JSON; a refusal becomes an Error with the program's message. */
class LiveSource {
  smoothings = [0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];
  live = true;
  /** Lets this page change runs; from the address that `wmtp-host ui --edit` prints. */
  editToken = new URLSearchParams(location.search).get("edit");

  async ask(path, parameters = {}) {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(parameters)) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(key, one);
    }
    const response = await fetch(`api/${path}?${query}`);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  }

  /** `labels`: run, name, tags, note, archived. A refusal becomes an Error with its text. */
  async label(labels) {
    const response = await fetch("api/label", { method: "POST", headers: { "X-Edit-Token": this.editToken },
                                                body: JSON.stringify(labels) });
    const text = await response.text();
    if (!response.ok) throw new Error(text.startsWith("{") ? JSON.parse(text).error : text);
  }

  runs() { return this.ask("runs"); }

  /** `view`: runs, names, smoothing, x ("step", "time" or "tokens"), from, to, cells. Any number of names. */
  async curves(view) {
    const curves = [];
    for (let first = 0; first < view.names.length; first += MOST_NAMES) {
      const names = view.names.slice(first, first + MOST_NAMES);
      curves.push(...(await this.ask("curves", this.viewParameters({ ...view, names }))).curves);
    }
    return { curves };
  }

  refresh(cursors, view) {
    return this.ask("refresh", { epoch: cursors.epoch, version: cursors.version, since: cursors.cursor,
                                 events_since: cursors.event_cursor, ...this.viewParameters(view) });
  }

  configs() { return this.ask("configs"); }
  run(run) { return this.ask("run", { run }); }
  params(runs) { return this.ask("params", { runs: runs.join(",") }); }
  events(runs) { return this.ask("events", { runs: runs.join(",") }); }
  memory(run) { return this.ask("memory", { run }); }
  studies() { return this.ask("studies"); }
  sampled(run) { return this.ask("sampled", { run }); }
  tokens(run, step, sequence) { return this.ask("tokens", { run, step, sequence }); }

  viewParameters({ runs, names, smoothing, x, from, to, cells }) {
    return { runs: runs.join(","), name: names, smoothing, x, from, to, cells };
  }
}

/** Reads the data that `wmtp-host report` embedded in the page (host/ui/report_page.cpp). */
class ReportSource {
  live = false;

  constructor(report) {
    this.report = report;
    this.smoothings = report.smoothings;
  }

  async runs() {
    const { runs, names, database, made, version } = this.report;
    return { runs, names, database, made, program: version };
  }

  async curves({ runs, names, smoothing }) {
    const wanted = this.report.curves.filter((curve) => runs.includes(curve.run) && names.includes(curve.name));
    return { curves: wanted.map((curve) => ({ ...curve, smooth: curve.smooth[smoothing] })) };
  }

  /** All keys of one run, or the report's keys that differ between several runs. */
  async params(runs) {
    const isOf = (answer) => answer.runs.length === 1 && answer.runs[0] === runs[0];
    const all = runs.length > 1 ? this.report.params[0] : this.report.params.find(isOf);
    const places = runs.map((run) => all.runs.indexOf(run));
    const rows = all.rows.map(({ key, values }) => ({ key, values: places.map((place) => values[place]) }));
    const differ = ({ values }) => values.some((value) => value !== values[0]);
    return { runs, rows: runs.length > 1 ? rows.filter(differ) : rows };
  }

  async configs() { return this.report.configs; }
  async run(run) { return this.report.pages.find((page) => page.id === run); }
  async events(runs) { return this.report.events.filter((event) => runs.includes(event.run)); }
  async memory(run) { return this.report.memory.find((memory) => memory.run === run); }
  async sampled(run) { return this.report.samples.find(({ sampled }) => sampled.run === run).sampled; }

  async tokens(run, step, sequence) {
    return this.report.samples.find(({ sampled }) => sampled.run === run)
      .tokens.find((tokens) => tokens.step === step && tokens.sequence === sequence);
  }
}

const reportElement = document.getElementById("report");
const source = reportElement ? new ReportSource(JSON.parse(reportElement.textContent)) : new LiveSource();
