/* Associative recall: the exact population flow of the simplified model (dot-product loss), integrated while the reader chooses where the three
   beta start. theta = (w^1 .. w^K, beta), w^h of length W. */
iclbook.model("recall_race", (data, { html, svg, set, number, plot, handles, slider, button, row, says, legend, eventually, player, flow, softmax, dot, logspace }) => {
  const { heads: K, window: W, kappa, chance, match } = data;
  const T = match.length / (K * W); // permutations; the first is the right one
  const state = { betas: [...data.betas], at: 0.72 };

  // ---- the model ---------------------------------------------------------------------------------------------------

  // found[t K + h]: the offset at which permutation t holds what head h looks for, or -1
  const found = Array.from({ length: T * K }, (_, n) => match.slice(n * W, (n + 1) * W).indexOf(1));
  const attention = (theta) => Array.from({ length: K }, (_, h) => softmax(theta.slice(h * W, (h + 1) * W)));
  const beta = (theta) => theta.slice(K * W);
  /** Second-layer attention on the responses, given the first layer's. */
  const weights = (theta, a) => {
    const scores = new Array(T).fill(0);
    for (let h = 0; h < K; h++) {
      const strength = kappa * theta[K * W + h] ** 2;
      for (let t = 0; t < T; t++) if (found[t * K + h] >= 0) scores[t] += strength * a[h][found[t * K + h]];
    }
    return softmax(scores);
  };
  const loss = (theta) => (1 - chance) * (1 - weights(theta, attention(theta))[0]);
  /** Minus the gradient of the population loss. */
  const velocity = (theta) => {
    const a = attention(theta);
    const s = weights(theta, a);
    const out = new Array(K * (W + 1));
    for (let h = 0; h < K; h++) {
      const strength = theta[K * W + h];
      const each = new Array(W).fill(0); // derivative of the loss in what each offset adds
      for (let t = 0; t < T; t++) if (found[t * K + h] >= 0) each[found[t * K + h]] += (1 - chance) * s[0] * (s[t] - (t === 0));
      const mean = dot(each, a[h]);
      for (let w = 0; w < W; w++) out[h * W + w] = -kappa * strength ** 2 * a[h][w] * (each[w] - mean);
      out[K * W + h] = -2 * kappa * strength * mean;
    }
    return out;
  };
  /** What a match at a head's own offset adds to a score. */
  const advantage = (theta) => attention(theta).map((a, h) => kappa * beta(theta)[h] ** 2 * (a[h] - (1 - a[h]) / (W - 1)));
  const integrate = (start, at, options) => flow(velocity, start, at, { ...options, stiff: false });
  const begin = (betas) => [...new Array(K * W).fill(0), ...betas];

  // ---- the flow: until all heads are active, and three times as long -------------------------------------------------

  let [times, path, jumps] = [[], [], []];
  const run = () => {
    const least = data.limit / Math.max(...state.betas);
    const last = (40 * data.limit) / Math.min(...state.betas);
    const every = logspace(least / 20, last, Math.round(36 * Math.log10((20 * last) / least)));
    jumps = new Array(K).fill(Infinity);
    path = integrate(begin(state.betas), every, {
      rtol: 1e-5,
      enough: (t, theta) => {
        advantage(theta).forEach((v, h) => v >= data.active && (jumps[h] = Math.min(jumps[h], t)));
        return t > 3 * Math.max(...jumps);
      },
    });
    times = every.slice(0, path.length);
  };

  // ---- the picture -------------------------------------------------------------------------------------------------

  const size = { width: 340, height: 240, logX: true, x: [1, 10], xlabel: "flow time" };
  const race = plot({ ...size, y: [1e-4, 10], logY: true, ylabel: "β", title: "strengths β: drag their starts", label: "beta of each head against time" });
  const losses = plot({ ...size, y: [0, 0.8], ylabel: "loss", title: "loss and its plateaus", label: "loss against time" });
  const lines = Array.from({ length: K }, (_, h) => race.line(`head${h + 1}`));
  const levels = data.plateaus.map(() => losses.line("reference dotted"));
  const curve = losses.line("answer");
  const now = [race, losses].map((area) => area.add("line", { class: "query", y1: area.edge.top, y2: area.edge.top + area.inner.height }));
  const starts = handles(race, {
    items: () => state.betas.map((y, h) => ({ x: times[0], y, kind: `head${h + 1}`, size: 8, text: String(h + 1) })),
    move: (h, _, y) => (state.betas[h] = Math.min(data.range[1], Math.max(data.range[0], y))),
    name: (h) => `initial beta of head ${h + 1}`,
    value: (h) => number(state.betas[h], 4),
    fixed: "x",
    changed: () => again(),
  });
  const cell = 26;
  const map = svg("svg", { viewBox: `0 0 ${90 + W * cell} ${40 + K * cell}`, class: "cells", role: "img" });
  const cells = Array.from({ length: K }, (_, h) =>
    Array.from({ length: W }, (_, w) => {
      const place = { x: 66 + w * cell, y: 24 + h * cell };
      const box = svg("rect", { ...place, width: cell - 2, height: cell - 2, class: `cell head${h + 1}` });
      map.append(svg("rect", { ...place, width: cell - 2, height: cell - 2, class: `hollow${w === h ? " own" : ""}` }), box);
      return box;
    }));
  for (let h = 0; h < K; h++) map.append(svg("text", { x: 60, y: 41 + h * cell, "text-anchor": "end" }, `head ${h + 1}`));
  for (let w = 0; w < W; w++) map.append(svg("text", { x: 78 + w * cell, y: 16, "text-anchor": "middle" }, String(w + 1)));
  map.append(svg("text", { class: "label", x: 65 + (W * cell) / 2, y: 38 + K * cell, "text-anchor": "middle" }, "attends so many tokens back"));

  const words = says();
  const show = () => {
    if (!path.length) return;
    const i = Math.round(state.at * (path.length - 1));
    now.forEach((line, n) => set(line, { x1: [race, losses][n].toX.to(times[i]), x2: [race, losses][n].toX.to(times[i]) }));
    const a = attention(path[i]);
    cells.forEach((entries, h) => entries.forEach((box, w) => set(box, { "fill-opacity": a[h][w].toFixed(3) })));
    map.setAttribute("aria-label", `Attention to the own offset: ${a.map((v, h) => `head ${h + 1} ${number(v[h])}`).join(", ")}`);
    const active = jumps.map((t, h) => [t, h + 1]).filter(([t]) => t <= times[i]).sort((p, q) => p[0] - q[0]).map(([, h]) => h);
    words.textContent = `At time ${number(times[i], 0)}: ${active.length ? `head${active.length > 1 ? "s" : ""} ${active.join(", then ")} active` : "no head active"}, loss ${number(loss(path[i]), 3)}.`;
  };
  const redraw = () => {
    run();
    const x = [times[0] / 1.5, times.at(-1)];
    const high = Math.max(...path.map((theta) => Math.max(...beta(theta))));
    race.axes({ x, y: [data.range[0] / 2, 2 * high] });
    losses.axes({ x });
    lines.forEach((line, h) => line(path.map((theta, i) => [times[i], beta(theta)[h]])));
    levels.forEach((line, n) => line(x.map((t) => [t, data.plateaus[n]])));
    curve(path.map((theta, i) => [times[i], loss(theta)]));
    starts.redraw();
    show();
  };
  const later = eventually(redraw);
  const again = () => {
    scale.put(Math.max(...state.betas));
    later();
  };
  const scale = slider({ label: "largest initial β", min: data.largest[0], max: data.largest[1], value: Math.max(...state.betas), log: true, format: (v) => number(v, 3), on: (v) => {
    const factor = v / Math.max(...state.betas);
    state.betas = state.betas.map((b) => Math.max(data.range[0], b * factor));
    later();
  } });
  const clock = slider({ label: "time", min: 0, max: 1, value: state.at, step: 0.0025, format: (v) => (times.length ? number(times[Math.round(v * (times.length - 1))], 0) : ""), on: (v) => {
    state.at = v;
    show();
  } });
  const play = player("Play", 6, (part) => {
    state.at = part;
    clock.put(part);
    show();
  });
  const turn = button("Next in front", () => {
    state.betas = [...state.betas.slice(-1), ...state.betas.slice(0, -1)];
    later();
  });
  const parts = [
    row("plots", race.svg, losses.svg, map, html("div", { class: "beside" }, words, legend(...Array.from({ length: K }, (_, h) => [`head${h + 1}`, `head ${h + 1}`]), ["reference dotted", "frequencies among what is left"]))),
    row("controls", scale.element, clock.element),
    row("buttons", play.element, turn),
  ];
  return { parts, redraw: () => { redraw(); clock.put(state.at); }, loss, velocity, attention: (theta) => attention(theta), advantage, integrate, begin, state, path: () => ({ times, states: path, jumps }) };
});
