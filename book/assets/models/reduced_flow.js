/* He et al. 2025: gradient flow of the approximate loss of two numbers per head, integrated while the reader moves its start. */
iclbook.model("reduced_flow", (data, { html, number, plot, slider, choice, row, says, legend, eventually, flow, logspace }) => {
  const { d, coupling, noise } = data;
  const state = { ...data.start };
  const times = logspace(...data.times, 140);

  // ---- the model ---------------------------------------------------------------------------------------------------

  const split = (y) => [y.slice(0, y.length / 2), y.slice(y.length / 2)];
  /** 1 + s2 - 2 mu.omega + (mu.omega)^2 + (1 + s2)/L sum_hk mu_h mu_k exp(d omega_h omega_k), of y = (omega, mu). */
  const loss = (y) => {
    const [omega, mu] = split(y);
    let [overlap, quadratic] = [0, 0];
    omega.forEach((o, h) => {
      overlap += o * mu[h];
      omega.forEach((p, k) => (quadratic += mu[h] * mu[k] * Math.exp(d * o * p)));
    });
    return 1 + noise - 2 * overlap + overlap ** 2 + coupling * quadratic;
  };
  /** Minus its gradient. */
  const velocity = (y) => {
    const [omega, mu] = split(y);
    const rest = 1 - omega.reduce((sum, o, h) => sum + o * mu[h], 0);
    const [inOmega, inMu] = [[], []];
    omega.forEach((o, h) => {
      let [plain, tilted] = [0, 0];
      omega.forEach((p, k) => {
        const e = Math.exp(d * o * p) * mu[k];
        plain += e;
        tilted += e * p;
      });
      inOmega.push(2 * rest * mu[h] - 2 * coupling * d * mu[h] * tilted);
      inMu.push(2 * rest * o - 2 * coupling * plain);
    });
    return [...inOmega, ...inMu];
  };
  /** mu of the pair on the solution manifold at gamma. */
  const manifold = (gamma) => (0.5 * gamma) / (gamma ** 2 + coupling * Math.sinh(d * gamma ** 2));
  const integrate = (start, at, options) => flow(velocity, start, at, options);

  // ---- the picture -------------------------------------------------------------------------------------------------

  const pair = () => [state.gamma, -state.gamma, manifold(state.gamma), -manifold(state.gamma)];
  const begin = () => (state.from === "pair" ? pair() : data.draws[state.draw].slice(0, 2).flatMap((numbers) => numbers.slice(0, state.heads)).map((v) => v * state.scale));
  const size = { width: 340, height: 230, x: data.times, logX: true, xlabel: "time (rate × steps)" };
  const omegas = plot({ ...size, y: [-1, 1], ylabel: "ω", title: "where a head looks: ω", label: "omega of each head against time" });
  const mus = plot({ ...size, y: [-5, 5], ylabel: "μ", title: "what it adds: μ", label: "mu of each head against time" });
  const losses = plot({ ...size, y: [0, 1], ylabel: "loss", title: "loss", label: "approximate loss against time" });
  const marks = [omegas, omegas, mus, mus, losses].map((area) => area.line("dotted"));
  const most = data.draws[0][0].length;
  const lines = [omegas, mus].map((area) => Array.from({ length: most }, (_, h) => area.line(`head${h + 1}`)));
  const curve = losses.line("answer");
  const words = says();
  const key = legend();
  const names = [...legend(...lines[0].map((_, h) => [`head${h + 1}`, `head ${h + 1}`]), ["dotted", "pair at γ with its best μ"]).children];
  let [path, began] = [[], []];
  const redraw = () => {
    const start = begin();
    path = integrate(start, times);
    began = start;
    const heads = start.length / 2;
    const [, high] = [0, Math.max(1, ...path.flatMap((y) => y.slice(heads).map(Math.abs)))];
    mus.axes({ y: [-1.1 * high, 1.1 * high] });
    const wide = Math.max(0.7, ...path.flatMap((y) => y.slice(0, heads).map(Math.abs)));
    omegas.axes({ y: [-1.1 * wide, 1.1 * wide] });
    const heights = path.map(loss);
    losses.axes({ y: [0, 1.05 * Math.max(1 + noise, heights[0])] });
    lines.forEach((group, kind) =>
      group.forEach((line, h) => line(h < heads ? path.map((y, i) => [times[i], y[kind * heads + h]]) : [])));
    curve(path.map((_, i) => [times[i], heights[i]]));
    const [gamma, , mu] = pair();
    [gamma, -gamma, mu, -mu, loss(pair())].forEach((v, i) => marks[i](data.times.map((t) => [t, v])));
    key.replaceChildren(...names.slice(0, heads), names.at(-1));
    say(heights, heads);
  };
  /** gamma = sum |mu omega| / sum |mu|. */
  const gammaOf = (y) => {
    const [omega, mu] = split(y);
    return mu.reduce((sum, m, h) => sum + Math.abs(m * omega[h]), 0) / mu.reduce((sum, m) => sum + Math.abs(m), 0);
  };
  const say = (heights, heads) => {
    if (path.length < times.length) return void (words.textContent = "This start is too steep to follow to the end.");
    const [omega] = split(path.at(-1));
    const [plus, minus] = [omega.filter((o) => o > 0).length, omega.filter((o) => o < 0).length];
    const sides = plus && minus ? `${plus} positive, ${minus} negative` : "all of one sign";
    const still = state.from === "pair" && gammaOf(path.at(-1)) > 0.99 * state.gamma ? " From here nothing moves in this time: the smaller γ, the slower it falls." : "";
    words.textContent = `At the end: ${heads} heads, ${sides}; γ = ${number(gammaOf(path.at(-1)), 3)}, loss ${number(heights.at(-1), 4)}. The pair at γ = ${number(state.gamma, 3)} has loss ${number(loss(pair()), 4)}.${still}`;
  };
  const later = eventually(redraw);
  const put = (name) => (v) => {
    state[name] = v;
    for (const part of [scale, count, draw]) part.element.hidden = state.from === "pair";
    later();
  };
  const from = choice({ label: "start from", options: [["random", "random numbers"], ["pair", "the pair at γ"]], value: state.from, on: put("from") });
  const scale = slider({ label: "initial scale", min: data.scales[0], max: data.scales[1], value: state.scale, log: true, format: (v) => number(v, 3), on: put("scale") });
  const gamma = slider({ label: "γ of the pair", min: data.gammas[0], max: data.gammas[1], value: state.gamma, log: true, format: (v) => number(v, 3), on: put("gamma") });
  const count = slider({ label: "heads H", min: 1, max: most, value: state.heads, step: 1, format: String, on: put("heads") });
  const draw = slider({ label: "draw", min: 1, max: data.draws.length, value: state.draw + 1, step: 1, format: String, on: (v) => put("draw")(v - 1) });
  const parts = [
    row("plots", omegas.svg, mus.svg, losses.svg, html("div", { class: "beside" }, words, key)),
    row("controls", from.element, scale.element, gamma.element, count.element, draw.element),
  ];
  return { parts, redraw, loss, velocity, manifold, integrate, state, path: () => ({ start: began, times, states: path }) };
});
