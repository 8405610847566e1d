/* He et al. 2025: trained heads answer a prompt whose pairs the reader drags. All covariates lie on one line through the origin, so that a prompt
   is a set of points (x, y) and the model a function of the query; the weights are the trained ones, all of them, in all d dimensions. */
iclbook.model("prompt", (data, { html, set, number, plot, handles, slider, choice, button, row, says, legend, eventually, softmax, dot }) => {
  const { d, eta } = data;
  const state = { pairs: data.pairs.map(([x, y]) => ({ x, y })), length: data.shown, query: data.query, of: "all" };

  // ---- the model: yhat = sum_h OV_h Z softmax(Z^T KQ_h z_q) --------------------------------------------------------

  /** Attention (L) of one head with `kq` (D rows of d numbers) on tokens (L rows of D numbers). */
  const attention = (head, tokens, query) => {
    const folded = head.kq.map((entries) => dot(entries, query));
    return softmax(tokens.map((token) => dot(folded, token)));
  };
  const predict = (heads, tokens, query) =>
    heads.reduce((sum, head) => sum + dot(attention(head, tokens, query), tokens.map((token) => dot(token, head.ov))), 0);
  /** One step of debiased gradient descent: eta / L sum_l y_l (x_l - mean x)^T x_q. */
  const descend = (tokens, query) => {
    const mean = query.map((_, i) => tokens.reduce((sum, token) => sum + token[i], 0) / tokens.length);
    return (eta / tokens.length) * tokens.reduce((sum, token) => sum + token[d] * query.reduce((s, q, i) => s + q * (token[i] - mean[i]), 0), 0);
  };

  const onLine = (x) => Array.from({ length: d }, (_, i) => (i ? 0 : x));
  const shown = () => state.pairs.slice(0, state.length);
  const tokens = () => shown().map(({ x, y }) => [...onLine(x), y]);

  // ---- the picture -------------------------------------------------------------------------------------------------

  const range = Array.from({ length: 81 }, (_, i) => -4 + i / 10);
  const inside = (y) => Math.min(3.2, Math.max(-3.2, y));
  const views = Object.entries(data.heads).map(([count, heads]) => {
    const name = { 1: "one head", 2: "two heads" }[count] ?? `${count} heads`;
    const area = plot({ x: [-4, 4], y: [-3.2, 3.2], xlabel: "x", ylabel: "y", title: name, label: `Prompt and answers of ${name}` });
    const step = area.line("reference dashed");
    const answer = area.line("answer");
    const mark = area.add("line", { class: "query", y1: area.edge.top, y2: area.edge.top + area.inner.height });
    const discs = data.pairs.map(() => area.add("circle", {}));
    const pairs = handles(area, {
      items: () => shown().map((pair) => ({ ...pair, kind: "pair", size: 3 })),
      move: (i, x, y) => Object.assign(state.pairs[i], { x, y }),
      name: (i) => `pair ${i + 1} of ${state.length}`,
      value: (i) => `x ${number(state.pairs[i].x)}, y ${number(state.pairs[i].y)}`,
      changed: () => later(),
    });
    const query = handles(area, {
      items: () => [{ x: state.query, y: inside(predict(heads, tokens(), onLine(state.query))), kind: "asked", size: 7 }],
      move: (_, x) => (state.query = x),
      name: () => "query",
      value: () => `x ${number(state.query)}`,
      fixed: "y",
      changed: () => later(),
    });
    /** What multiplies each response: sum_h mu_h attention_h, or the attention of one head. */
    const weights = () => {
      const each = heads.map((head) => attention(head, tokens(), onLine(state.query)).map((a) => [a, a * head.ov[d]]));
      const chosen = Number(state.of);
      return tokens().map((_, i) => (chosen < heads.length ? each[chosen][i][0] * Math.sign(heads[chosen].ov[d]) : each.reduce((sum, head) => sum + head[i][1], 0)));
    };
    const redraw = () => {
      const now = tokens();
      step(range.map((x) => [x, descend(now, onLine(x))]));
      answer(range.map((x) => [x, predict(heads, now, onLine(x))]));
      const at = area.toX.to(state.query);
      set(mark, { x1: at, x2: at });
      const weight = weights();
      discs.forEach((disc, i) => {
        if (i >= now.length) return set(disc, { r: 0 });
        const { x, y } = state.pairs[i];
        set(disc, { class: weight[i] < 0 ? "minus" : "plus", cx: area.toX.to(x), cy: area.toY.to(y), r: 6 * Math.sqrt(Math.abs(weight[i]) * now.length) });
      });
      pairs.redraw();
      query.redraw();
    };
    return { name, heads, area, redraw };
  });

  const words = says();
  const redraw = () => {
    views.forEach((view) => view.redraw());
    const at = onLine(state.query);
    const answers = views.map(({ name, heads }) => `${name} ${number(predict(heads, tokens(), at))}`);
    words.textContent = `Asked at x = ${number(state.query)}: ${answers.join(", ")}; one gradient step ${number(descend(tokens(), at))}.`;
  };
  const later = eventually(redraw);

  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  const draw = (law) => {
    const slope = (0.4 + 0.8 * Math.random()) * Math.sign(Math.random() - 0.5);
    for (const pair of state.pairs) {
      do pair.x = normal();
      while (Math.abs(pair.x) > 2.6);
      pair.y = inside(law(pair.x, slope) + Math.sqrt(data.noise) * normal());
    }
    later();
  };
  const many = slider({ label: "pairs L", min: 4, max: data.pairs.length, value: state.length, step: 1, format: (v) => String(Math.round(v)), on: (v) => { state.length = Math.round(v); later(); } });
  const asked = slider({ label: "query x", min: -4, max: 4, value: state.query, step: 0.05, on: (v) => { state.query = v; later(); } });
  const largest = Math.max(...views.map(({ heads }) => heads.length));
  const names = Array.from({ length: largest }, (_, i) => [String(i), `head ${i + 1}`]);
  const of = choice({ label: "weights of", options: [["all", "all heads"], ...names], value: "all", on: (v) => { state.of = v === "all" ? "all" : v; later(); } });
  const parts = [
    row("plots", ...views.map(({ area }) => area.svg)),
    legend(["answer", "answer for every query"], ["reference dashed", "one step of debiased gradient descent"]),
    html("p", { class: "legend" }, html("span", {}, html("i", { class: "spot plus" }), "adds this pair's y"), html("span", {}, html("i", { class: "spot minus" }), "subtracts it; area: how much")),
    words,
    row("controls", asked.element, many.element, of.element),
    row("buttons", button("New line", () => draw((x, slope) => slope * x)), button("New parabola", () => draw((x, slope) => 0.5 * slope * (x * x - 1)))),
  ];
  const all = { parts, redraw: () => { asked.put(state.query); redraw(); }, predict, attention, descend, state };
  return all;
});
