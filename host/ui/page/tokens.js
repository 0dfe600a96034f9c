// The tokens of sampled sequences, coloured by weight, loss, reference loss, excess loss or how the head's gradient
// aligns with head 1's (docs/heads.md), for one head at the slider's step; next to those of another run, with the
// difference of the two.
"use strict";

const Tokens = (() => {
  const QUANTITIES = [["weight", "weight"], ["loss", "loss"], ["reference_loss", "reference loss"],
                      ["excess", "excess (loss − reference)"], ["cosine", "cosine with head 1's gradient"],
                      ["product", "product with head 1's gradient"]];
  const MISSING = { excess: "the run has no reference", reference_loss: "the run has no reference",
                    cosine: "set [log] heads_every_steps, and the samples of a run compare its heads" };
  MISSING.product = MISSING.cosine;
  const chosen = { run: null, other: 0, sequence: null, head: null, quantity: "weight", step: null };
  let sampled = null, asked = 0, newest = true;  // `newest`: follow new steps

  const isNumber = (value) => typeof value === "number";
  const isFar = (value) => value === "inf" || value === "-inf" || value === "nan";

  /** [{position, token, text, weight, loss, reference_loss, excess, cosine, product}] of one head. */
  function tokensOf({ columns }) {
    const tokens = [];
    columns.position.forEach((position, i) => {
      if (columns.head[i] !== chosen.head) return;
      const [weight, loss, reference] = [columns.weight[i], columns.loss[i], columns.reference_loss[i]];
      tokens.push({ position, token: columns.token_id[i], text: columns.text[i], weight, loss,
                    reference_loss: reference,
                    excess: isNumber(loss) && isNumber(reference) ? loss - reference : null,
                    cosine: columns.cosine[i], product: columns.product[i] });
    });
    return tokens;
  }

  /** Colours from the smallest to the largest value; where signs matter, two colours that meet at 0. */
  function scaleOf(values) {
    const finite = values.filter(isNumber);
    if (chosen.quantity === "excess") return differenceScale(values);
    if (chosen.quantity === "cosine" || chosen.quantity === "product") return differenceScale(values, 212, 12);
    const low = Math.min(0, ...finite), high = Math.max(low + 1e-9, ...finite);
    const hue = { weight: 152, loss: 28, reference_loss: 268 }[chosen.quantity];
    return { low, high, color: (value) => `hsla(${hue}, 75%, 45%, ${(0.78 * (value - low)) / (high - low)})` };
  }

  /** Hues above and below 0: of a difference red and blue; of gradients, as in the tab of heads, blue and red. */
  function differenceScale(values, above = 12, below = 212) {
    const most = Math.max(1e-9, ...values.filter(isNumber).map(Math.abs));
    return { low: -most, high: most, color: (value) =>
      `hsla(${value > 0 ? above : below}, 85%, 52%, ${(0.75 * Math.abs(value)) / most})` };
  }

  /** The other run's values minus the run's, where both have the same token. */
  function differences(tokens, others) {
    const byPosition = new Map(others.map((token) => [token.position, token]));
    return tokens.map((token) => {
      const other = byPosition.get(token.position);
      const [a, b] = [token[chosen.quantity], other?.[chosen.quantity]];
      const same = other?.token === token.token && isNumber(a) && isNumber(b);
      return { ...token, [chosen.quantity]: same ? b - a : null };
    });
  }

  function describe(token) {
    const [, name] = QUANTITIES.find(([key]) => key === "excess");
    return `position ${token.position}, token ${token.token}: weight ${shownNumber(token.weight)}, ` +
      `loss ${shownNumber(token.loss)}, reference loss ${shownNumber(token.reference_loss)}, ` +
      `${name.split(" ")[0]} ${shownNumber(token.excess)}` + (isNumber(token.cosine)
      ? `; with head 1's gradient where it is predicted from: cosine ${shownNumber(token.cosine)}, ` +
        `product ${shownNumber(token.product)}` : "");
  }

  function histogram(values, scale) {
    const BINS = 32, HEIGHT = 56, finite = values.filter(isNumber);
    const bins = new Array(BINS).fill(0);
    for (const value of finite) {
      bins[Math.min(BINS - 1, Math.floor(((value - scale.low) / (scale.high - scale.low)) * BINS))] += 1;
    }
    const most = Math.max(1, ...bins);
    const svg = shape("svg", { width: BINS * 8, height: HEIGHT + 18, role: "img",
                               "aria-label": "Histogram of token values" });
    bins.forEach((count, i) => {
      const height = (count / most) * HEIGHT, value = scale.low + ((i + 0.5) / BINS) * (scale.high - scale.low);
      svg.append(shape("rect", { x: i * 8, y: HEIGHT - height, width: 7, height, class: "bin" },
                       shape("title", {}, `about ${shownNumber(value)}: ${counted(count, "token")}`)),
                 shape("rect", { x: i * 8, y: HEIGHT + 1, width: 8, height: 4, fill: scale.color(value) }));
    });
    svg.append(shape("text", { x: 0, y: HEIGHT + 17 }, shownNumber(scale.low)),
               shape("text", { x: BINS * 8, y: HEIGHT + 17, "text-anchor": "end" }, shownNumber(scale.high)));
    return svg;
  }

  function paint(text, tokens, scale, tell = describe) {
    const showDetail = ({ target }) => {
      const token = tokens[target.dataset?.index];
      if (token) byId("token-detail").textContent = tell(token);
    };
    text.replaceChildren(...tokens.map((token, index) => {
      const value = token[chosen.quantity];
      const span = element("span", { dataset: { index, value: value ?? "" }, textContent: visible(token.text),
                                     class: isFar(value) ? "far" : isNumber(value) ? "" : "none" });
      if (isNumber(value)) span.style.backgroundColor = scale.color(value);
      return span;
    }));
    text.onmouseover = text.onclick = showDetail;
  }

  /** The tokens of two runs and their difference, on one scale. */
  function renderOther(tokens, others, answer) {
    const pane = (title, id) => {
      const text = element("div", { id, class: "token-text", tabindex: 0, role: "region", "aria-label": title });
      byId("token-panes").append(element("div", {}, element("h2", { textContent: title }), text));
      return text;
    };
    byId("token-panes").replaceChildren();
    if (!answer) return;
    const scale = scaleOf([...tokens, ...others].map((token) => token[chosen.quantity]));
    paint(byId("token-text"), tokens, scale);
    paint(pane(`${runTitle(chosen.other)}, step ${answer.step}`, "token-other"), others, scale);
    const apart = differences(tokens, others);
    paint(pane(`${runTitle(chosen.other)} minus ${runTitle(chosen.run)}`, "token-difference"), apart,
          differenceScale(apart.map((token) => token[chosen.quantity])),
          (token) =>
            `position ${token.position}: difference of the ${chosen.quantity} ${shownNumber(token[chosen.quantity])}`);
  }

  function render(answer, otherAnswer) {
    const tokens = tokensOf(answer);
    const values = tokens.map((token) => token[chosen.quantity]);
    const scale = scaleOf(values);
    paint(byId("token-text"), tokens, scale);
    renderOther(tokens, otherAnswer ? tokensOf(otherAnswer) : [], otherAnswer);
    const known = values.filter(isNumber);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    byId("token-counts").textContent = !tokens.length ? "No tokens of this head."
      : known.length
      ? `${counted(tokens.length, "token")}, mean ${shownNumber(mean)}; ${known.filter((v) => v === 0).length} are 0`
      : `${counted(tokens.length, "token")}, none with this value${
        MISSING[chosen.quantity] ? `: ${MISSING[chosen.quantity]}` : ""}.`;
    byId("token-histogram").replaceChildren(...(known.length ? [histogram(values, scale)] : []));
    byId("token-step-shown").textContent = chosen.step;
  }

  /** The other run's tokens at its sampled step nearest to the slider's; null if it lacks the sequence. */
  async function nearestOf(run) {
    const { steps, sequences } = await source.sampled(run);
    if (!sequences.includes(chosen.sequence)) return null;
    const step = steps.reduce((a, b) => (Math.abs(b - chosen.step) < Math.abs(a - chosen.step) ? b : a));
    return source.tokens(run, step, chosen.sequence);
  }

  async function loadTokens() {
    const question = ++asked;
    const answer = await source.tokens(chosen.run, chosen.step, chosen.sequence);
    const other = chosen.other ? await nearestOf(chosen.other) : null;
    if (question === asked) render(answer, other);
  }

  function controls() {
    const choice = (key, values, after) => {
      const select = element("select", { id: `token-${key}`, onchange: ({ target }) => {
        chosen[key] = key === "quantity" ? target.value : Number(target.value);
        after();
      } });
      fillSelect(select, values, chosen[key]);
      return select;
    };
    const slider = element("input", { id: "token-step", type: "range", min: 0, max: sampled.steps.length - 1, step: 1,
                                      value: sampled.steps.indexOf(chosen.step) });
    slider.addEventListener("input", () => {
      chosen.step = sampled.steps[slider.value];
      newest = Number(slider.value) === sampled.steps.length - 1;
      loadTokens();
    });
    const kept = sampled.steps_in_log > sampled.steps.length
      ? ` ${sampled.steps.length} of ${sampled.steps_in_log} sampled steps are in this report.` : "";
    return [
      element("div", { class: "bar" },
        element("label", {}, "Run ", choice("run", withSamples.map((id) => [id, runTitle(id)]), load)),
        element("label", {}, "Compare with ", choice("other", [
          [0, "none"], ...withSamples.filter((id) => id !== chosen.run).map((id) => [id, runTitle(id)])], loadTokens)),
        element("label", {}, "Sequence ", choice("sequence", sampled.sequences.map((s) => [s, s]), loadTokens)),
        element("label", {}, "Head ", choice("head", sampled.heads.map((h) => [h, h]), loadTokens)),
        element("label", {}, "Colour ", choice("quantity", QUANTITIES, loadTokens)),
        element("label", { class: "grow" }, "Step ", slider, " ", element("output", { id: "token-step-shown" }))),
      element("p", { class: "hint", id: "token-counts" }),
      element("div", { id: "token-histogram" }),
      element("p", { id: "token-detail", role: "status" }, `Point at a token for its values.${kept}`),
      element("div", { id: "token-text", class: "token-text", tabindex: 0, role: "region",
                       "aria-label": "Text with coloured tokens" }),
      element("div", { id: "token-panes", class: "token-panes" }),
    ];
  }

  let withSamples = [];
  async function load() {
    if (state.tab !== "tokens") return;
    const panel = byId("tokens");
    const answers = await Promise.all(chosenRuns().map(({ id }) => source.sampled(id)));
    if (state.tab !== "tokens") return;
    withSamples = answers.filter((answer) => answer.steps.length).map((answer) => answer.run);
    if (!withSamples.length) {
      sampled = null;
      return panel.replaceChildren(element("p", { class: "empty" }, state.chosen.size
        ? "The chosen runs have no samples of tokens in the log." : "No run is chosen."));
    }
    if (!withSamples.includes(chosen.run)) chosen.run = withSamples[0];
    if (!withSamples.includes(chosen.other) || chosen.other === chosen.run) chosen.other = 0;
    const before = JSON.stringify(sampled);
    sampled = answers.find((answer) => answer.run === chosen.run);
    if (JSON.stringify(sampled) === before && byId("token-text")) return;
    if (!sampled.sequences.includes(chosen.sequence)) chosen.sequence = sampled.sequences[0];
    if (!sampled.heads.includes(chosen.head)) chosen.head = sampled.heads[0];
    if (newest || !sampled.steps.includes(chosen.step)) chosen.step = sampled.steps.at(-1);
    const focused = document.activeElement?.id;
    panel.replaceChildren(...controls());
    if (focused) byId(focused)?.focus();
    await loadTokens();
  }

  function start() {
    whenChanged(["tab", "chosen"], load);
    whenChanged(["runs"], atMostEvery(5000, load));
  }
  return { start };
})();
