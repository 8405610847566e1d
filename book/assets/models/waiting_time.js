/* Five papers examine each other: gradient flow of (1 - x1 x2 ... xp)^2 / 2, integrated while the reader chooses p and the size of the start. */
iclbook.model("waiting_time", (data, { html, set, number, plot, slider, choice, button, row, says, legend, eventually, flow, logspace }) => {
  const { kept, ...begin } = data.begin;
  const state = { ...begin, kept: { ...kept } };

  // ---- the model ---------------------------------------------------------------------------------------------------

  const product = (x) => x.reduce((all, v) => all * v, 1);
  const loss = (x) => (1 - product(x)) ** 2 / 2;
  /** Minus its gradient. */
  const velocity = (x) => x.map((_, i) => (1 - product(x)) * product(x.filter((_, j) => j !== i)));
  /** The flow of y = (x1 .. xp, t) along the growing u = log(P / (1 - P)) of the product P instead of along time, which passes plateau and jump alike in
      even strides: each velocity is divided by du/dt = sum_i (dxi/dt) / xi / (1 - P). */
  const along = (y) => {
    const x = y.slice(0, -1);
    const v = velocity(x);
    const rate = v.reduce((sum, w, i) => sum + w / x[i], 0) / (1 - product(x));
    return [...v.map((w) => w / rate), 1 / rate];
  };
  const logit = (p) => Math.log(p / (1 - p));
  /** States (x, t) where the product passes `products`, which rise from above that of the start. */
  const integrate = (start, products, options) => {
    const first = logit(product(start));
    return flow(along, [...start, 0], products.map((p) => logit(p) - first), { rtol: 1e-7, ...options, stiff: false });
  };
  const goal = 1 - Math.sqrt(data.left);
  const startOf = ({ degree, size, from }) => data.starts[from][degree].map((v) => v * size);
  /** Time until the share `left` of the loss is left. */
  const wait = (start, options) => integrate(start, [goal], options)[0].at(-1);
  /** What the degree predicts: log(1 / eps) or a power of it, with the constant that small starts have. */
  const law = ({ degree, size, from }) =>
    degree === 2 ? Math.log(1 / size) + data.laws[from][degree] : data.laws[from][degree] * size ** (2 - degree);

  // ---- flows at the chosen start and at the kept one, and waits at other sizes -----------------------------------------

  const follow = (at) => {
    const start = startOf(at);
    const [low, high] = [logit(product(start)), logit(0.995)];
    const products = Array.from({ length: 90 }, (_, i) => 1 / (1 + Math.exp(-(low + ((i + 1) / 90) * (high - low)))));
    return integrate(start, products).map((y) => [y.at(-1), loss(y.slice(0, -1))]);
  };
  const sizes = logspace(...data.sizes, 9);
  const known = {};
  const sweep = ({ degree, from }) => (known[`${degree} ${from}`] ??= sizes.map((size) => [1 / size, wait(startOf({ degree, size, from }))]));

  // ---- the picture -------------------------------------------------------------------------------------------------

  const scales = [1 / data.sizes[1], 1 / data.sizes[0]];
  const all = data.degrees.flatMap((degree) => data.sizes.map((size) => law({ degree, size, from: "equal" })));
  const size = { width: 340, height: 250, logX: true };
  const losses = plot({ ...size, x: [0.1, 10], y: [0, 0.56], xlabel: "time", ylabel: "loss", title: "nothing happens, and then", label: "loss against time" });
  const waits = plot({ ...size, x: [scales[0] / 1.15, scales[1] * 1.15], y: [Math.min(...all) / 20, Math.max(...all) * 100], logY: true, xlabel: "1/ε, one over the size", ylabel: "wait", title: "the wait, by degree", label: "wait against one over the size of the start" });
  const level = losses.line("reference dotted");
  const before = losses.line("kept dashed");
  const curve = losses.line("answer");
  const left = losses.add("line", { class: "query", y1: losses.edge.top, y2: losses.edge.top + losses.inner.height });
  const laws = data.degrees.map(() => waits.line("reference dotted"));
  const dots = sizes.map(() => waits.add("circle", { class: "sample", r: 3 }));
  const ring = waits.add("circle", { class: "hollow kept", r: 6 });
  const here = waits.add("circle", { class: "here", r: 6 });
  const names = data.degrees.map((degree) => waits.add("text", { class: "name", "text-anchor": "end" }));
  const words = says();
  const put = (shape, [x, y]) => set(shape, { cx: waits.toX.to(x).toFixed(2), cy: waits.toY.to(y).toFixed(2) });
  let drawn = {};
  const redraw = () => {
    const now = { at: { degree: state.degree, size: state.size, from: state.from }, path: follow(state), wait: wait(startOf(state)) };
    const was = { at: state.kept, path: follow(state.kept), wait: wait(startOf(state.kept)) };
    const longest = Math.max(...[state, state.kept].map(({ degree, from }) => law({ degree, from, size: data.sizes[0] })));
    const x = [0.1, 10 ** Math.ceil(Math.log10(20 * longest))];
    losses.axes({ x });
    level(x.map((t) => [t, 0.5]));
    [[curve, now], [before, was]].forEach(([line, { at, path }]) => {
      const shown = path.filter(([t]) => t > x[0]);
      line([[x[0], shown.length < path.length ? path[path.length - shown.length - 1][1] : loss(startOf(at))], ...shown, [x[1], shown.at(-1)[1]]]);
    });
    set(left, { x1: losses.toX.to(now.wait), x2: losses.toX.to(now.wait) });
    data.degrees.forEach((degree, n) => {
      const points = sizes.map((size) => [1 / size, law({ degree, size, from: state.from })]);
      laws[n](points.filter(([, t]) => t > 0));
      const [u, v] = points[0];
      set(names[n], { x: waits.toX.to(u) - 2, y: waits.toY.to(v) + (degree === 2 ? 16 : -9) }); // two and three factors lie close
      names[n].textContent = `p = ${degree}`;
    });
    sweep(state).forEach((point, n) => put(dots[n], point));
    put(ring, [1 / state.kept.size, was.wait]);
    put(here, [1 / state.size, now.wait]);
    drawn = { now, was };
    say(now, was);
  };
  const digits = (v) =>
    v >= 1e9 ? `${digits(v / 1e9)} billion` : v >= 1e6 ? `${digits(v / 1e6)} million` : number(v, 0, Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(v)))));
  const say = (now, was) => {
    const same = now.at.degree === was.at.degree && now.at.from === was.at.from && now.at.size !== was.at.size;
    const compared = same
      ? `From size ${digits(was.at.size)} to ${digits(now.at.size)} the wait becomes ${digits(now.wait / was.wait)} times as long; the law says ${digits(law(now.at) / law(was.at))}.`
      : `Kept: ${was.at.degree} factors of size ${digits(was.at.size)}, which wait until ${digits(was.wait)}.`;
    words.textContent = `${now.at.degree} factors of size ${digits(now.at.size)}: half of the loss is gone at time ${digits(now.wait)}. ${compared}`;
  };
  const later = eventually(redraw);
  const change = (name) => (v) => {
    state[name] = v;
    later();
  };
  const degree = choice({ label: "factors p", options: data.degrees.map((p) => [p, String(p)]), value: state.degree, on: change("degree") });
  const from = choice({ label: "they start", options: [["equal", "equal"], ["own", "each its own size"]], value: state.from, on: change("from") });
  const scale = slider({ label: "size ε of the start", min: data.sizes[0], max: data.sizes[1], value: state.size, log: true, format: (v) => number(v, 3), on: change("size") });
  const keep = button("Keep this curve", () => {
    state.kept = { degree: state.degree, size: state.size, from: state.from };
    later();
  });
  const parts = [
    row("plots", losses.svg, waits.svg),
    words,
    legend(["answer", "now"], ["kept dashed", "kept"], ["reference dotted", "plateau; predicted growth"]),
    row("controls", scale.element, degree.element, from.element),
    row("buttons", keep),
  ];
  return { parts, redraw, loss, velocity, integrate, wait, law, state, drawn: () => drawn };
});
