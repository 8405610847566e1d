/* Wang et al. 2025: labels in a square, and what functional gradient descent in attention blocks makes of them. The embeddings, the steps and the
   kernel's gamma are the trained ones of one block; more blocks repeat it. */
iclbook.model("label_square", (data, { html, number, plot, handles, slider, choice, button, row, says, eventually, softmax, dot }) => {
  const { gamma, rate, embed } = data; // embed: C rows of d'
  const state = { points: data.points.map(([x, y, label]) => ({ x, y, label })), blocks: data.blocks, factor: 1, pen: data.classes[0], chosen: 0 };

  // ---- the model ---------------------------------------------------------------------------------------------------

  const expectation = (f) => {
    const p = softmax(embed.map((w) => dot(w, f)));
    return f.map((_, j) => embed.reduce((sum, w, c) => sum + p[c] * w[j], 0));
  };
  /** softmax_i(gamma x_i^T x): the kernel of every example at a place. */
  const kernel = (points, x, y) => softmax(points.map((p) => gamma * (p.x * x + p.y * y)));
  /** Probabilities of all C categories at `places` [[x, y]]: f <- f + alpha sum_i [w_{y_i} - E(w | f(x_i))] kappa(x_i, x), `blocks` times from 0.
      All places see the same residuals, so these are summed over the blocks first. */
  const predict = (points, places, blocks, factor) => {
    const step = rate.map((alpha) => factor * alpha);
    const between = points.map((p) => kernel(points, p.x, p.y));
    const total = points.map(() => step.map(() => 0));
    const spread = (weights) => step.map((alpha, j) => alpha * weights.reduce((sum, v, i) => sum + v * total[i][j], 0));
    for (let k = 0; k < blocks; k++) {
      const f = between.map(spread);
      points.forEach((p, i) => {
        const e = expectation(f[i]);
        embed[p.label].forEach((w, j) => (total[i][j] += w - e[j]));
      });
    }
    return places.map(([x, y]) => {
      const f = spread(kernel(points, x, y));
      return softmax(embed.map((w) => dot(w, f)));
    });
  };

  // ---- the picture -------------------------------------------------------------------------------------------------

  const GRID = 41;
  const places = Array.from({ length: GRID * GRID }, (_, n) => [(2 * (n % GRID)) / (GRID - 1) - 1, 1 - (2 * Math.floor(n / GRID)) / (GRID - 1)]);
  const letter = (label) => "ABCD"[data.classes.indexOf(label)];
  const area = plot({ width: 340, height: 340, x: [-1, 1], y: [-1, 1], bare: true, label: "The square: labels and the most probable category around them" });
  const canvas = html("canvas", { width: GRID, height: GRID, role: "img", "aria-label": "Map of the most probable category" });
  const stage = html("div", { class: "square" }, canvas, area.svg);
  const marks = handles(area, {
    items: () => state.points.map((p) => ({ x: p.x, y: p.y, kind: `label${data.classes.indexOf(p.label) + 1}`, size: 8, text: letter(p.label) })),
    move: (i, x, y) => Object.assign(state.points[i], { x, y }),
    name: (i) => `label ${letter(state.points[i].label)}, ${i + 1} of ${state.points.length}`,
    value: (i) => `${number(state.points[i].x)}, ${number(state.points[i].y)}`,
    remove: (i) => state.points.length > 1 && state.points.splice(i, 1),
    changed: () => later(),
  });
  const add = (x, y) => {
    state.points.push({ x, y, label: state.pen });
    redraw();
    marks.focus(state.points.length - 1);
  };
  area.svg.addEventListener("click", (event) => {
    if (!event.target.closest(".handle") && state.points.length < 100) add(...area.where(event));
  });

  const words = says();
  const paint = (map) => {
    const look = getComputedStyle(stage);
    const colours = ["--label1", "--label2", "--label3", "--label4", "--other", "--paper"].map((name) => {
      const hex = look.getPropertyValue(name).trim();
      return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    });
    const picture = canvas.getContext("2d").createImageData(GRID, GRID);
    const share = new Array(5).fill(0);
    map.forEach((p, n) => {
      const best = p.indexOf(Math.max(...p));
      const which = data.classes.includes(best) ? data.classes.indexOf(best) : 4;
      share[which] += 1 / map.length;
      colours[5].forEach((ground, i) => (picture.data[4 * n + i] = ground + (colours[which][i] - ground) * p[best]));
      picture.data[4 * n + 3] = 255;
    });
    canvas.getContext("2d").putImageData(picture, 0, 0);
    return share;
  };
  const redraw = () => {
    const map = predict(state.points, places, state.blocks, state.factor);
    const share = paint(map);
    marks.redraw();
    const sure = map.reduce((sum, p) => sum + Math.max(...p), 0) / map.length;
    const said = share.map((v, i) => `${"ABCD"[i] ?? "others"} ${Math.round(100 * v)} %`).filter((_, i) => share[i] >= 0.005);
    words.textContent = `Most probable, by share of the square: ${said.join(", ")}. Its probability is ${number(sure)} on average.`;
  };
  const later = eventually(redraw);
  new MutationObserver(later).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const pen = choice({ label: "next label", options: data.classes.map((label, i) => [label, "ABCD"[i], `pen label${i + 1}`]), value: state.pen, on: (v) => (state.pen = v) });
  const blocks = slider({ label: "blocks K", min: 1, max: 12, value: state.blocks, step: 1, format: String, on: (v) => { state.blocks = v; later(); } });
  const factor = slider({ label: "step × trained", min: 0.05, max: 5, value: 1, log: true, format: (v) => number(v), on: (v) => { state.factor = v; later(); } });
  const parts = [
    row("plots", stage, html("div", { class: "beside" }, words, row("controls narrow", pen.element, blocks.element, factor.element), row("buttons",
      button("Add a label", () => state.points.length < 100 && add(0, 0)),
      button("Clear", () => { state.points = data.classes.map((label, i) => ({ x: [0.5, -0.5, -0.5, 0.5][i], y: [0.5, 0.5, -0.5, -0.5][i], label })); later(); }),
      button("As at first", () => { state.points = data.points.map(([x, y, label]) => ({ x, y, label })); later(); })))),
  ];
  return { parts, redraw, predict, state };
});
