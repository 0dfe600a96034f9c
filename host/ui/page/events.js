// Events of the chosen runs, newest first.
"use strict";

const Events = (() => {
  const seen = (event) => `${event.run} ${event.time} ${event.kind} ${event.message}`;

  /** Loads the events of the chosen runs into the state, because the curves mark them. */
  async function load() {
    const runs = [...state.chosen];
    change({ events: runs.length ? await source.events(runs) : [] });
  }

  function append(newEvents) {
    const known = new Set(state.events.map(seen));
    const added = newEvents.filter((event) => state.chosen.has(event.run) && !known.has(seen(event)));
    if (added.length) change({ events: [...state.events, ...added] });
  }

  function render() {
    if (state.tab !== "events") return;
    const events = [...state.events].sort((a, b) => b.time - a.time);
    const lines = events.map((event) => {
      const time = new Date(event.time * 1000).toISOString().replace("T", " ").slice(0, 19);
      const texts = [time, shownSeconds(event.seconds), runTitle(event.run), event.rank ?? "launcher", event.level,
                     event.kind, event.step ?? "–", event.message];
      const row = element("tr", { class: event.level }, ...texts.map((text) => element("td", { textContent: text })));
      row.style.setProperty("--run", runColor(event.run));
      return row;
    });
    const titles = ["time (UTC)", "since start", "run", "rank", "level", "kind", "step", "message"];
    byId("events").replaceChildren(events.length
      ? element("div", { class: "table" }, element("table", {},
          element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)))),
          element("tbody", {}, ...lines)))
      : element("p", { class: "empty" }, state.chosen.size ? "No events in the chosen runs." : "No run is chosen."));
  }

  function start() {
    whenChanged(["chosen"], load);
    whenChanged(["tab", "events", "chosen"], render);
  }
  return { start, append };
})();
