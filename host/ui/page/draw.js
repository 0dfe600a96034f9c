// Drawing helpers for all parts of the page. Text from the log becomes text nodes only, never markup.
"use strict";

/** An element with properties (including `class`, `dataset` and attributes) and children: elements or strings. */
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key === "dataset") Object.assign(made.dataset, value);
    else if (key === "style") Object.assign(made.style, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list" && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** An SVG element; all properties are attributes. */
function shape(name, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

/** Made once: toLocaleString makes one for each number. */
const withCommas = new Intl.NumberFormat("en-US");

/** 6.44394 -> "6.444", 2.00004 -> "2.000", 1234567 -> "1,234,567", null -> "–"; "nan" and "inf" unchanged. */
function shownNumber(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return withCommas.format(value);
  const size = Math.abs(value);
  if (size >= 1000) return withCommas.format(Math.round(value));
  return size < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
}

/** 1, "run" -> "1 run"; 2, "run" -> "2 runs" */
const counted = (number, noun) => `${shownNumber(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Like shownNumber without trailing zeros, for axes. */
const shownTick = (value) => {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1000 || size < 1e-3) ? shownNumber(value) : String(Number(value.toPrecision(4)));
};

function shownSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.round(seconds);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
}

function shownBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

/** The theme that the user chose, else the system's. */
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

/** Twelve distinguishable hues, ordered so that adjacent ones differ most. */
const HUES = [215, 25, 145, 330, 265, 48, 185, 0, 95, 300, 235, 165];

/** The colour of a run, independent of the other chosen runs. */
function runColor(run, alpha = 1) {
  const light = (isDark() ? 64 : 44) + [0, -12, 12][Math.floor(run / HUES.length) % 3];
  return `hsla(${HUES[run % HUES.length]}, ${isDark() ? 75 : 70}%, ${light}%, ${alpha})`;
}

/** The value of a colour variable in the page's style. */
const styleColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Adds symbols for invisible characters; keeps newlines. */
const visible = (text) => text.replaceAll("\t", "⇥\t").replaceAll("\r", "␍").replaceAll("\n", "⏎\n");

/** A table of objects with these [key, title, formatting] columns. */
function tableOf(rows, columns) {
  return element("div", { class: "table" }, element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map(([, title]) =>
      element("th", { scope: "col", class: title.length < 24 ? "short" : "" }, title)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...columns.map(([key, , show]) => element("td", {
      class: typeof row[key] === "number" ? "number" : "",
      textContent: row[key] === null || row[key] === undefined ? "–" : (show ?? String)(row[key]),
    })))))));
}

/** Fills a select with [value, text] pairs; keeps the selected value if it still exists. */
function fillSelect(select, choices, chosen) {
  const wanted = String(chosen ?? select.value);
  select.replaceChildren(...choices.map(([value, text]) => element("option", { value, textContent: text })));
  if (choices.some(([value]) => String(value) === wanted)) select.value = wanted;
}
