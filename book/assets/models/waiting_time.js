/* Five papers examine each other: a product of p factors that should be one, two of which also fit what prompts tell by chance, under weight decay. */
iclbook.model("waiting_time", (data, { set, number, plot, slider, choice, button, row, says, legend, eventually, logspace }) => {
  const { kept, ...begin } = data.begin;
  const state = { ...begin, kept: { ...kept } };

  // ---- the model: x = (O, V1, V2, V3, z), the product P = O V1 z^(p-2), c what answers correlate with by chance ---------

  const parts = (x, p, c) => {
    const [out, a, b, d, z] = x;
    return { product: out * a * z ** (p - 2), fit: out * (c[0] * a + c[1] * b + c[2] * d), square: a * a + b * b + d * d };
  };
  const loss = (x, p, c) => {
    const { product, fit, square } = parts(x, p, c);
    return (1 - product) ** 2 / 2 - (1 - product) * fit + (data.mean * x[0] ** 2 * square) / 2;
  };
  /** Minus the gradient of the loss with weight decay. */
  const velocity = (x, p, c, decay) => {
    const [out, a, b, d, z] = x;
    const { product, fit, square } = parts(x, p, c);
    const rest = 1 - product;
    const others = (rest - fit) * z ** (p - 2);
    const [turn, fall] = [rest * out, data.mean * out ** 2 + decay];
    return [
      others * a + rest * (c[0] * a + c[1] * b + c[2] * d) - (data.mean * square + decay) * out,
      others * out + turn * c[0] - fall * a,
      turn * c[1] - fall * b,
      turn * c[2] - fall * d,
      p > 2 ? (rest - fit) * out * a * z ** (p - 3) - decay * z : 0,
    ];
  };
  /** One step of Runge and Kutta's scheme of order four. */
  const step = (x, h, ...how) => {
    const at = (k, part) => velocity([0, 1, 2, 3, 4].map((i) => x[i] + part * h * k[i]), ...how);
    const k1 = velocity(x, ...how);
    const k2 = at(k1, 0.5);
    const k3 = at(k2, 0.5);
    const k4 = at(k3, 1);
    return [0, 1, 2, 3, 4].map((i) => x[i] + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
  };
  const norm = (v) => Math.sqrt(v[0] ** 2 + v[1] ** 2 + v[2] ** 2 + (v[3] ?? 0) ** 2);
  /** Rate of chance on so many prompts drawn once, and by how much log-sizes diffuse in a unit of time with a fresh batch of so many (no flow shows that: only its time is drawn). */
  const chance = ({ prompts, count }) => (prompts === "once" ? data.chance / Math.sqrt(count) : 0);
  const diffusion = ({ prompts, count }) => (prompts === "fresh" ? (data.rate * data.chance ** 2) / count : 0);

  /** From factors of one size: `path` of [time, loss], and `wait`, when the share `left` of the loss is left; Infinity where that never comes. A step changes
      no size by more than the share `fine`. */
  const run = (at, { fine = 0.05, further = 0 } = {}) => {
    const { degree, size, decay } = at;
    const how = [degree, [chance(at), 0, 0], decay];
    let [x, t, wait] = [[size, size, 0, 0, degree > 2 ? size : 1], 0, Infinity];
    const path = [[0, loss(x, ...how)]];
    const patience = 30 * withChance({ ...at, decay: 0 });
    for (let n = 0; n < data.most && t < Math.min(patience, wait * (1 + further)); n++) {
      const v = velocity(x, ...how);
      let h = Math.min((fine * norm(x)) / norm(v), (fine * x[4]) / Math.abs(v[4] || 1e-300));
      if (norm(x) > 0.3 || (degree > 2 && x[4] > 0.3)) h = Math.min(h, 4 * fine);
      const goal = data.left / 2;
      const next = step(x, h, ...how);
      const after = loss(next, ...how);
      if (wait === Infinity && after <= goal) {
        let [low, high] = [0, h];
        for (let i = 0; i < 40; i++) {
          const middle = (low + high) / 2;
          if (loss(step(x, middle, ...how), ...how) > goal) low = middle;
          else high = middle;
        }
        wait = t + high;
      }
      [x, t] = [next, t + h];
      path.push([t, after]);
      if (norm(x) < size / 30) break; // decay has won
    }
    return { path, wait };
  };
  const wait = (at, options) => run(at, options).wait;

  // ---- the laws ------------------------------------------------------------------------------------------------------

  /** Wait of gradient flow on symmetric prompts, with decay: the time of du/dt = e^((p-2)u) - decay for the logarithm u of a size. */
  const power = ({ degree, size, decay }) => {
    const k = degree - 2;
    if (k === 0) return decay < 1 ? (Math.log(1 / size) + data.two) / (1 - decay) : Infinity;
    const share = decay * size ** -k;
    return share >= 1 ? Infinity : decay ? -Math.log1p(-share) / (k * decay) : size ** -k / k;
  };
  /** Wait where outputs and values, O = V = y, grow by chance as well: y' = (z^k + c) y and z' = y^2 z^(k-1) keep y^2 - z^2 - 2 c integral of w^(1-k) dw, so that
      one integral over the logarithm of z is left. Decay lowers c. */
  const withChance = (at) => {
    const { degree, size, decay } = at;
    const c = chance(at) - decay;
    const k = degree - 2;
    if (c <= 0 || chance(at) === 0) return power(at);
    if (k === 0) return power({ ...at, decay: -c });
    const rate = (s) => {
      const z = size * Math.exp(s);
      return (z * z + 2 * c * (k === 1 ? z - size : s)) * z ** (k - 2);
    };
    const steps = logspace(1e-4 * Math.min(1, size ** k / c), Math.log(1 / size), 300);
    return steps.reduce((sum, s, i) => sum + (i ? ((s - steps[i - 1]) * (1 / rate(s) + 1 / rate(steps[i - 1]))) / 2 : s / rate(0)), 0);
  };

  // ---- the picture -------------------------------------------------------------------------------------------------

  const sizes = logspace(...data.sizes, 9);
  const [slow, shape] = [data.sizes[0], { width: 340, height: 250, logX: true }];
  const longest = Math.max(...data.degrees.map((degree) => power({ degree, size: slow, decay: 0 })));
  const scales = [1 / data.sizes[1], 1 / slow];
  const losses = plot({ ...shape, x: [0.1, 10], y: [0, 0.56], xlabel: "time", ylabel: "loss", title: "nothing happens, and then", label: "loss against time" });
  const waits = plot({ ...shape, x: [scales[0] / 1.15, scales[1] * 1.15], y: [0.7, 6 * longest], logY: true, xlabel: "1/ε, one over the size", ylabel: "wait", title: "the wait, and its laws", label: "wait against one over the size of the start" });
  const level = losses.line("reference dotted");
  const before = losses.line("kept dashed");
  const curve = losses.line("answer");
  const left = losses.add("line", { class: "query", y1: losses.edge.top, y2: losses.edge.top + losses.inner.height });
  const laws = [power, withChance].map((of, n) => [of, waits.line(n ? "positive dashed" : "reference dotted")]);
  const diffused = waits.line("head3");
  const dots = sizes.map(() => waits.add("circle", { class: "sample", r: 3 }));
  const ring = waits.add("circle", { class: "hollow kept", r: 6 });
  const here = waits.add("circle", { class: "here", r: 6 });
  const words = says();
  const put = (shape, size, t) => set(shape, { cx: waits.toX.to(1 / size).toFixed(2), cy: waits.toY.to(Math.min(t, 1e9)).toFixed(2) });
  const known = {};
  const sweep = (at) => (known[JSON.stringify({ ...at, size: 0 })] ??= sizes.map((size) => wait({ ...at, size })));
  let drawn = {};
  const redraw = () => {
    const { kept, ...at } = state;
    const [now, was] = [at, kept].map((one) => ({ at: one, ...run(one, { further: 3 }), law: withChance(one) }));
    const ends = [now, was].map(({ wait, path }) => (wait < Infinity ? 4 * wait : path.at(-1)[0]));
    const x = [0.1, 10 ** Math.ceil(Math.log10(Math.max(...ends)))];
    losses.axes({ x });
    level(x.map((t) => [t, 0.5]));
    for (const [line, { path }] of [[curve, now], [before, was]]) line([[x[0], path[0][1]], ...path.filter(([t]) => t > x[0]), [x[1], path.at(-1)[1]]]);
    set(left, { x1: losses.toX.to(Math.min(now.wait, x[1])), x2: losses.toX.to(Math.min(now.wait, x[1])) });
    for (const [of, line] of laws) line((of === power || chance(at) ? logspace(...data.sizes, 40) : []).map((size) => [1 / size, of({ ...at, size })]).filter(([, t]) => t > 0 && t < Infinity));
    diffused(diffusion(at) ? scales.map((u) => [u, 1 / diffusion(at)]) : []);
    sweep(at).forEach((t, n) => put(dots[n], sizes[n], t));
    lawWithChance.hidden = !chance(at);
    ofDiffusion.hidden = !diffusion(at);
    put(ring, kept.size, was.wait);
    put(here, at.size, now.wait);
    drawn = { now, was };
    say(now, was);
  };
  const digits = (v) => number(v, 0, Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(v)))));
  const say = (now, was) => {
    const { at } = now;
    const end = (one) => (one.wait < Infinity ? `half of the loss is gone at time ${digits(one.wait)}` : "the loss never falls");
    const says = now.law === Infinity ? "the laws say never" : `the law${chance(at) ? " with chance" : ""} says ${digits(now.law)}`;
    const noise = diffusion(at) ? ` With batches of this size log-sizes diffuse by one in a time of ${digits(1 / diffusion(at))}: SGD can leave the law where waits are longer.` : "";
    words.textContent = `${at.degree} factors of size ${digits(at.size)}: ${end(now)}; ${says}.${noise} Kept: ${was.at.degree} factors of size ${digits(was.at.size)}: ${end(was)}.`;
  };
  const later = eventually(redraw);
  const change = (name) => (v) => {
    state[name] = v;
    count.element.hidden = state.prompts === "even";
    later();
  };
  const degree = choice({ label: "factors p", options: data.degrees.map((p) => [p, String(p)]), value: state.degree, on: change("degree") });
  const kinds = [["even", "symmetric"], ["once", "N drawn once"], ["fresh", "N fresh in each step"]];
  const prompts = choice({ label: "prompts", options: kinds, value: state.prompts, on: change("prompts") });
  const scale = slider({ label: "size ε of the start", min: data.sizes[0], max: data.sizes[1], value: state.size, log: true, format: (v) => number(v, 3), on: change("size") });
  const count = slider({ label: "N, prompts", min: data.counts[0], max: data.counts[1], value: state.count, log: true, format: (v) => number(v, 0), on: change("count") });
  count.element.hidden = true;
  const none = data.decays[0];
  const decay = slider({ label: "weight decay λ", min: none, max: data.decays[1], value: none, log: true, format: (v) => (v > none ? number(v, 5) : "none"), on: (v) => change("decay")(v > none ? v : 0) });
  const keep = button("Keep this curve", () => {
    const { kept: _, ...at } = state;
    state.kept = at;
    later();
  });
  const key = legend(["answer", "now"], ["kept dashed", "kept"], ["reference dotted", "plateau; law of p factors"], ["positive dashed", "the same with chance"], ["head3", "time in which batches diffuse"]);
  const [lawWithChance, ofDiffusion] = [...key.children].slice(3);
  const shown = [
    row("plots", losses.svg, waits.svg),
    words,
    key,
    row("controls", degree.element, scale.element, prompts.element, count.element, decay.element),
    row("buttons", keep),
  ];
  return { parts: shown, redraw, loss, velocity, run, wait, power, withChance, chance, diffusion, state, drawn: () => drawn };
});
