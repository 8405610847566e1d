/* He et al. 2025: the paper's model trains in the page, by the library's own C (src/iclbook/native) compiled to WebAssembly (kernels/attention.js).
   A worker takes the steps; with every picture it is asked for the next ones, so that a page out of sight trains nothing. */
(() => {
  const folder = document.currentScript?.src.replace(/[^/]*$/, "");
  const build = (data, { html, svg, set, number, plot, handles, slider, choice, button, row, eventually, softmax, dot }) => {
    const { d, limits, levels, paper } = data;
    const D = d + 1;
    const able = iclbook.training.able();
    const state = { ...data.begin, playing: false, query: data.query, tried: "pair" };
    const pairs = data.pairs.map(([x, y]) => ({ x, y }));
    const of = (name) => data.activations.findIndex((a) => a.name === name);

    // ---- the run -----------------------------------------------------------------------------------------------------

    /** The stored run as a worker gives it, a frame at a time: for browsers that cannot train. */
    const film = () => {
      let at = 0;
      return async (kind) => {
        at = kind === "start" ? 0 : Math.min(at + 1, data.film.length - 1);
        const { step, loss, heads } = data.film[at];
        return { steps: step - (at ? data.film[at - 1].step : 0), loss, took: 0, heads: heads.map(measured) };
      };
    };
    const ask = able ? iclbook.training.worker() : film();
    const last = able ? data.most : data.film.at(-1).step;
    /** What the worker needs to know of a run. */
    const described = (run) => {
      const { heads, batch, seed, scale, rate } = run;
      return { heads, batch, seed, scale, rate, L: data.L, noise: data.noise, beta: data.beta, state: data.states[seed], activation: of(run.activation), scores: data.scores[run.scores] };
    };
    const run = { done: 0, loss: NaN, heads: [], records: [], sum: 0, since: 0, perSecond: 0 };

    /** KQ = K^T Q with the score scale (first d columns) and the last row of OV = O V of each head; omega is the mean of KQ's diagonal, mu the last entry of OV. */
    const circuits = (parameters, heads, scores) => {
      const size = heads * D * D;
      return Array.from({ length: heads }, (_, h) => {
        const at = (matrix, i, j) => parameters[matrix * size + h * D * D + i * D + j];
        const kq = Array.from({ length: D }, (_, j) => Array.from({ length: d }, (_, i) => {
          let total = 0;
          for (let a = 0; a < D; a++) total += at(1, a, j) * at(0, a, i);
          return scores * total;
        }));
        const ov = Array.from({ length: D }, (_, j) => {
          let total = 0;
          for (let a = 0; a < D; a++) total += at(3, d, a) * at(2, a, j);
          return total;
        });
        return measured({ kq, ov });
      });
    };
    const measured = ({ kq, ov }) => ({ kq, ov, omega: kq.slice(0, d).reduce((sum, row, i) => sum + row[i], 0) / d, mu: ov[d] });
    /** Of the heads with omega of one sign: gamma = sum |mu omega| / sum |mu|, and the sum of mu. */
    const side = (heads, sign) => {
      let [weighted, size, sum] = [0, 0, 0];
      for (const { omega, mu } of heads) {
        if (omega * sign <= 0) continue;
        weighted += Math.abs(mu * omega);
        size += Math.abs(mu);
        sum += mu;
      }
      return { gamma: size ? weighted / size : 0, mu: sum };
    };
    const summary = (heads) => {
      const [plus, minus] = [side(heads, 1), side(heads, -1)];
      const size = heads.reduce((sum, { mu }) => sum + Math.abs(mu), 0);
      const gamma = heads.reduce((sum, { mu, omega }) => sum + Math.abs(mu * omega), 0) / size;
      return { gamma, plus, minus, mu: heads.reduce((sum, { mu }) => sum + Math.max(mu, 0), 0) };
    };
    /** Whether heads of both signs match, and how many heads do next to nothing. */
    const pattern = (heads) => {
      const { plus, minus, gamma } = summary(heads);
      const [up, down] = [plus.mu, -minus.mu];
      const matched = up > 0.5 && down > 0.5 && Math.abs(up - down) < 0.25 * (up + down) && Math.abs(plus.gamma - minus.gamma) < 0.3 * gamma;
      const most = Math.max(...heads.map(({ mu }) => Math.abs(mu)));
      return { pair: matched, oneSided: Math.min(Math.abs(up), Math.abs(down)) < 0.12 * most, idle: heads.filter(({ mu }) => Math.abs(mu) < 0.1 * most).length };
    };

    let asked = 0; // runs that were started: what belongs to an earlier one is not kept
    const begin = async () => {
      const mine = ++asked;
      const answer = await ask("start", described(state));
      if (mine !== asked) return;
      Object.assign(run, { done: 0, loss: NaN, records: [], sum: 0, since: 0, last: 0 });
      run.heads = answer.heads ?? circuits(answer.parameters, state.heads, data.scores[state.scores]);
      later();
    };
    const keep = (answer) => {
      run.done += answer.steps;
      run.sum += answer.loss * answer.steps;
      run.since += answer.steps;
      run.heads = answer.heads ?? circuits(answer.parameters, state.heads, data.scores[state.scores]);
      if (run.done < 1.02 * run.last) return;
      run.loss = run.sum / run.since;
      run.records.push({ step: run.done, loss: run.loss, heads: run.heads.map(({ omega, mu }) => [omega, mu]), sides: summary(run.heads) });
      Object.assign(run, { sum: 0, since: 0, last: run.done });
    };
    /** Steps of the next picture: as many as make the logarithm of their number grow evenly, or as the budget allows. */
    const pace = () => Math.min(last - run.done, Math.max(2, Math.ceil(run.done / 25)));
    const BUDGET = 13; // milliseconds of a picture's 17
    let busy = false;
    const more = async (steps, budget) => {
      if (busy) return;
      busy = true;
      const mine = asked;
      const answer = await ask("go", { steps, rate: state.rate, budget });
      busy = false;
      if (mine !== asked) return;
      run.perSecond = answer.took > 4 ? (1000 * answer.steps) / answer.took : run.perSecond;
      keep(answer);
      later();
    };
    let [seen, drawn] = [true, 0];
    const rest = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 500 : able ? 0 : 150;
    const frame = (now) => {
      if (!state.playing) return;
      requestAnimationFrame(frame);
      if (!seen || busy || now - drawn < rest) return;
      if (run.done >= last) return play(false);
      drawn = now;
      more(rest ? 30 * pace() : pace(), rest || BUDGET);
    };

    // ---- the model: yhat = sum_h OV_h Z f(Z^T KQ_h z_q) --------------------------------------------------------------

    const shares = {
      softmax,
      affine: (s) => normalised(s.map((v) => 1 + v)),
      square: (s) => normalised(s.map((v) => (1 + v) ** 2)),
      tanh: (s) => normalised(s.map((v) => 1 + Math.tanh(v))),
      linear: (s) => s.map((v) => v / s.length),
    };
    const normalised = (f) => {
      const total = f.reduce((sum, v) => sum + v, 0);
      return f.map((v) => v / total);
    };
    /** Attention (L) of one head on tokens (L, D). */
    const attention = (head, tokens, query) => {
      const folded = head.kq.map((entries) => dot(entries, query));
      return shares[state.activation](tokens.map((token) => dot(folded, token)));
    };
    const predict = (heads, tokens, query) => heads.reduce((sum, head) => sum + dot(attention(head, tokens, query), tokens.map((token) => dot(token, head.ov))), 0);
    /** One step of debiased gradient descent: eta / L sum_l y_l (x_l - mean x)^T x_q, of points on a line. */
    const descend = (x) => {
      const mean = pairs.reduce((sum, pair) => sum + pair.x, 0) / pairs.length;
      return (data.eta / pairs.length) * pairs.reduce((sum, pair) => sum + pair.y * (pair.x - mean) * x, 0);
    };
    const onLine = (x) => Array.from({ length: d }, (_, i) => (i ? 0 : x));
    const tokens = () => pairs.map(({ x, y }) => [...onLine(x), y]);

    // ---- the picture -------------------------------------------------------------------------------------------------

    const prompt = plot({ x: [-4, 4], y: [-3.2, 3.2], xlabel: "x", ylabel: "y", title: "what the heads answer", label: "A prompt of pairs and the answers of the heads" });
    const step = prompt.line("reference dashed");
    const answer = prompt.line("answer");
    const mark = prompt.add("line", { class: "query", y1: prompt.edge.top, y2: prompt.edge.top + prompt.inner.height });
    const discs = pairs.map(() => prompt.add("circle", {}));
    const points = handles(prompt, {
      items: () => pairs.map((pair) => ({ ...pair, kind: "pair", size: 3 })),
      move: (i, x, y) => Object.assign(pairs[i], { x, y }),
      name: (i) => `pair ${i + 1} of ${pairs.length}`,
      value: (i) => `x ${number(pairs[i].x)}, y ${number(pairs[i].y)}`,
      changed: () => later(),
    });
    const inside = (y) => Math.min(3.2, Math.max(-3.2, y));
    const query = handles(prompt, {
      items: () => [{ x: state.query, y: inside(run.heads.length ? predict(run.heads, tokens(), onLine(state.query)) : 0), kind: "asked", size: 7 }],
      move: (_, x) => (state.query = x),
      name: () => "query",
      value: () => `x ${number(state.query)}`,
      fixed: "y",
      changed: () => later(),
    });
    const grid = Array.from({ length: 65 }, (_, i) => -4 + i / 8);
    const drawPrompt = () => {
      const now = tokens();
      step([-4, 4].map((x) => [x, descend(x)]));
      answer(grid.map((x) => [x, Math.min(9, Math.max(-9, predict(run.heads, now, onLine(x))))]));
      const at = prompt.toX.to(state.query);
      set(mark, { x1: at, x2: at });
      const weight = now.map(() => 0);
      for (const head of run.heads) attention(head, now, onLine(state.query)).forEach((a, i) => (weight[i] += a * head.ov[d]));
      discs.forEach((disc, i) => {
        const [cx, cy] = [prompt.toX.to(pairs[i].x).toFixed(2), prompt.toY.to(pairs[i].y).toFixed(2)];
        set(disc, { class: weight[i] < 0 ? "minus" : "plus", cx, cy, r: Math.min(40, 6 * Math.sqrt(Math.abs(weight[i]) * now.length)).toFixed(2) });
      });
      points.redraw();
      query.redraw();
    };

    const along = { width: 340, height: 210, x: [10, 1000], logX: true, xlabel: "step" };
    const losses = plot({ ...along, height: 250, y: [0, 1.3], ylabel: "loss", title: "loss", label: "Training loss against the step" });
    const omegas = plot({ ...along, y: [-0.8, 0.8], ylabel: "ω", title: "ω: where a head looks", label: "omega of each head against the step" });
    const mus = plot({ ...along, y: [-4.2, 4.2], ylabel: "μ", title: "μ: what it adds", label: "mu of each head against the step" });
    const flats = levels.map(({ name, loss }) => ({ loss, line: losses.line("reference dashed"), text: losses.add("text", { class: "level" }), name }));
    const curve = losses.line("answer");
    const papers = [[omegas, paper.omega], [mus, paper.mu]].map(([area, v]) => ({ area, v, lines: [area.line("paper dashed"), area.line("paper dashed")], text: area.add("text", { class: "level paper" }) }));
    const colours = Array.from({ length: limits.heads[1] }, (_, h) => `head${h + 1}`);
    const lines = [omegas, mus].map((area) => colours.map((kind) => area.line(kind)));

    const way = plot({ width: 340, height: 250, x: [0, 0.8], y: [0, 4.5], xlabel: "|ω|", ylabel: "sum of |μ|", title: "the way to the manifold", label: "Sum of mu against omega, heads of either sign" });
    const manifold = way.line("reference dashed");
    const goal = way.add("path", { class: "line paper", d: "" });
    const trails = ["positive", "negative"].map((kind) => ({ line: way.line(`trail ${kind}`), end: way.add("circle", { class: `end ${kind}`, r: 5 }) }));
    const named = [way.add("text", { class: "level paper" }), way.add("text", { class: "level" })];
    ["ω > 0", "ω < 0"].forEach((text, i) => {
      const kind = i ? "negative" : "positive";
      way.add("circle", { class: `end ${kind}`, cx: 270, cy: 40 + 18 * i, r: 5 });
      way.add("text", { class: "key", x: 281, y: 44 + 18 * i }).textContent = text;
    });

    const maps = svg("svg", { role: "img", "aria-label": "KQ above and the last row of OV below, for each head" });
    let tiles = [];
    const layMaps = () => {
      const heads = run.heads.length;
      const columns = Math.min(4, heads);
      const cell = heads <= 2 ? 20 : heads === 3 ? 14 : 10;
      const [width, height] = [6.6 * cell + 10, 8.4 * cell + 18];
      const parts = [svg("text", { class: "title", x: 46, y: 14 }, "the circuits: KQ above, OV below")];
      tiles = Array.from({ length: heads }, (_, h) => {
        const [x0, y0] = [46 + (h % columns) * width, 26 + Math.floor(h / columns) * height];
        const square = (i, j, more) => svg("rect", { class: "tile", x: x0 + j * cell, y: y0 + 12 + i * cell + more, width: cell - 0.6, height: cell - 0.6 });
        const kq = Array.from({ length: D * d }, (_, k) => square(Math.floor(k / d), k % d, 0));
        const ov = Array.from({ length: D }, (_, j) => square(D, j, 5));
        parts.push(svg("text", { class: `name head${h + 1}`, x: x0, y: y0 + 6 }, `head ${h + 1}`), ...kq, ...ov);
        return { kq, ov };
      });
      set(maps, { viewBox: `0 0 340 ${30 + Math.ceil(heads / columns) * height}` });
      maps.replaceChildren(...parts);
    };
    const drawMaps = () => {
      const top = (values) => Math.max(1e-6, ...values.map(Math.abs));
      const scales = { kq: top(run.heads.flatMap(({ kq }) => kq.flat())), ov: top(run.heads.flatMap(({ ov }) => ov)) };
      run.heads.forEach((head, h) => {
        for (const kind of ["kq", "ov"]) head[kind].flat().forEach((v, k) => set(tiles[h][kind][k], { class: `tile ${v < 0 ? "minus" : "plus"}`, style: `fill-opacity:${(Math.abs(v) / scales[kind]).toFixed(3)}` }));
      });
    };

    const drawCourse = () => {
      const end = Math.max(1000, 10 ** (Math.ceil(2 * Math.log10(Math.max(run.done, 1)) - 1e-9) / 2));
      if (losses.x[1] !== end || !flats[0].text.textContent) {
        for (const area of [losses, omegas, mus]) area.axes({ x: [10, end] });
        flats.forEach(({ loss, line, text, name }) => {
          line([[10, loss], [end, loss]]);
          set(text, { x: losses.toX.to(10) + 5, y: losses.toY.to(loss) - 4 });
          text.textContent = `${name} ${number(loss, 3)}`;
        });
      }
      const plain = state.activation === "softmax";
      papers.forEach(({ area, v, lines: [up, down], text }) => {
        up(plain ? [[10, v], [end, v]] : []);
        down(plain ? [[10, -v], [end, -v]] : []);
        set(text, { x: area.toX.to(end) - 5, y: area.toY.to(v) + 13, "text-anchor": "end" });
        text.textContent = plain ? `paper: ${v}` : "";
      });
      const shown = run.records;
      const from = Math.max(0, shown.findIndex(({ step }) => step >= 10) - 1);
      const some = shown.slice(from);
      curve(some.map(({ step, loss }) => [step, Math.min(loss, 9)]));
      lines.forEach((group, kind) => group.forEach((line, h) => line(h < run.heads.length ? some.map(({ step, heads }) => [step, heads[h][kind]]) : [])));
    };
    const drawWay = () => {
      const plain = state.activation === "softmax";
      manifold(plain ? data.manifold : []);
      const [x, y] = [way.toX.to(paper.omega), way.toY.to(paper.mu)];
      set(goal, { d: plain ? `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` : "" });
      set(named[0], { x: x + 9, y: y + 4 });
      named[0].textContent = plain ? "paper" : "";
      set(named[1], { x: way.toX.to(0.4), y: way.toY.to(0.35) });
      named[1].textContent = plain ? "solution manifold" : "";
      const now = [...run.records.map(({ sides }) => sides), ...(run.heads.length ? [summary(run.heads)] : [])];
      ["plus", "minus"].forEach((name, i) => {
        const sign = i ? -1 : 1;
        const path = now.map((sides) => [sides[name].gamma, sides[name].mu * sign]).filter(([gamma]) => gamma > 0);
        trails[i].line(path);
        const [u, v] = path.at(-1) ?? [-1, -1];
        set(trails[i].end, { cx: way.toX.to(u).toFixed(2), cy: way.toY.to(v).toFixed(2) });
      });
    };

    // ---- words -------------------------------------------------------------------------------------------------------

    const figures = { step: html("b"), loss: html("b"), gamma: html("b"), mu: html("b"), speed: html("b") };
    const tallies = row("tallies", ...[["step", "step"], ["loss", "loss"], ["γ", "gamma"], ["sum of positive μ", "mu"], ["steps a second", "speed"]].map(([label, name]) => html("span", {}, figures[name], html("i", {}, label))));
    const words = html("p", { class: "says", role: "status" });
    const counts = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight"];
    const sentence = () => {
      const one = state.heads === 1;
      if (!run.done) return `${counts[state.heads]} ${one ? "head starts" : "heads start"} from random numbers. Press ${verb}.`;
      if (!run.records.length || !Number.isFinite(run.loss)) return Number.isNaN(run.sum) ? "This run has diverged: lower the rate." : "";
      if (run.loss > 3) return "The loss grows: the sum that normalises the weights is near zero. Lower the rate.";
      if (run.loss > 0.62) return "The heads turn from noise to a multiple of the identity.";
      if (state.activation === "linear") return "Linear attention needs no second head: a pair's response enters in proportion to the product of its x with the query, which is one step of gradient descent.";
      const { pair, oneSided, idle } = pattern(run.heads);
      if (pair) {
        const dummies = idle ? ` ${idle === 1 ? "One more head does next to nothing: a dummy." : `${counts[idle]} more heads do next to nothing: dummies.`}` : "";
        return `A pair: one side adds the responses of pairs like the query, the other subtracts those of pairs unlike it. Their bends cancel, and the answer runs straight along one gradient step.${dummies}`;
      }
      if (oneSided) return `${one ? "One head averages" : "All heads look one way, and average"} the responses of the pairs most like the query. Far out only the outermost pair is left, so the answer levels off: it bends.`;
      return "A head changes its side: a pair is forming.";
    };
    let [told, when] = ["", 0];
    const tell = () => {
      const { gamma, mu } = summary(run.heads);
      figures.step.textContent = number(run.done, 0);
      figures.loss.textContent = Number.isFinite(run.loss) ? number(run.loss, 3) : "–";
      figures.gamma.textContent = number(gamma, 3);
      figures.mu.textContent = number(mu, 2);
      figures.speed.textContent = run.perSecond ? number(Number(run.perSecond.toPrecision(2)), 0) : "–";
      const text = sentence();
      // a sentence stays for a second, so that it can be read, and be read out
      if (text === told || (text && performance.now() - when < 1000 && run.done)) return;
      [told, when] = [text, performance.now()];
      words.textContent = text;
    };

    const redraw = () => {
      if (!run.heads.length) return;
      if (tiles.length !== run.heads.length) layMaps();
      drawPrompt();
      drawCourse();
      drawMaps();
      drawWay();
      tell();
    };
    const later = eventually(redraw);

    // ---- hands -------------------------------------------------------------------------------------------------------

    const play = (on) => {
      if (state.playing === on) return;
      state.playing = on;
      player.textContent = on ? "Pause" : verb;
      set(player, { "aria-pressed": String(on) });
      if (on) requestAnimationFrame(frame);
    };
    const verb = able ? "Train" : "Play";
    const player = button(verb, () => play(!state.playing));
    player.classList.add("main");
    const single = button(able ? "One step" : "One frame", () => {
      play(false);
      more(1);
    });
    const again = button("Start again", () => begin());
    /** A setting that starts a new run, and one that the run goes on with. */
    const anew = (name) => (v) => {
      state[name] = v;
      tried(null);
      begin();
    };
    const onward = (name) => (v) => {
      state[name] = v;
      tried(null);
    };
    const power = (v) => number(v, 0, Math.max(0, Math.min(5, 1 - Math.floor(Math.log10(v)))));
    const controls = {
      heads: slider({ label: "heads", min: limits.heads[0], max: limits.heads[1], value: state.heads, step: 1, format: String, on: anew("heads") }),
      scale: slider({ label: "initial scale", min: limits.scale[0], max: limits.scale[1], value: state.scale, log: true, format: power, on: anew("scale") }),
      rate: slider({ label: "learning rate", min: limits.rate[0], max: limits.rate[1], value: state.rate, log: true, format: power, on: onward("rate") }),
      batch: slider({ label: "prompts a step", min: 0, max: data.batches.length - 1, value: data.batches.indexOf(state.batch), step: 1, format: (v) => String(data.batches[v]), on: (v) => anew("batch")(data.batches[v]) }),
      seed: slider({ label: "seed", min: 0, max: data.states.length - 1, value: state.seed, step: 1, format: String, on: anew("seed") }),
      scores: choice({ label: "scores", options: [["printed", "as printed"], ["coded", "as coded, by √6"]], value: state.scores, on: anew("scores") }),
      activation: choice({ label: "activation", options: data.activations.map(({ name, text }) => [name, text]), value: state.activation, on: anew("activation") }),
    };
    const show = () => {
      for (const name of ["heads", "scale", "rate", "seed"]) controls[name].put(state[name]);
      controls.batch.put(data.batches.indexOf(state.batch));
      const radios = { scores: ["printed", "coded"], activation: data.activations.map(({ name }) => name) };
      for (const [name, options] of Object.entries(radios)) controls[name].element.querySelectorAll("input").forEach((input, i) => (input.checked = options[i] === state[name]));
    };
    const about = html("p", { class: "about" });
    const chips = data.tries.map((one) => {
      const chip = button(one.name, () => {
        Object.assign(state, data.begin, one.settings);
        show();
        tried(one.key);
        if ("rate" in one.settings) settings.open = true; // where the reader lowers it
        begin().then(() => play(true));
      });
      return chip;
    });
    const settings = html("details", {}, html("summary", {}, "Rate, start, activation, seed"), row("controls", controls.rate.element, controls.scale.element, controls.batch.element, controls.seed.element, controls.scores.element, controls.activation.element));
    const tried = (key) => {
      state.tried = key;
      data.tries.forEach((one, i) => {
        set(chips[i], { "aria-pressed": String(one.key === key) });
        if (one.key !== key) return;
        about.replaceChildren(one.text, " ", html("a", { href: `${data.page}#${one.anchor}` }, one.link));
      });
      if (!key) about.replaceChildren("A run of your own: the library takes the same course from these numbers.");
    };
    tried(state.tried);

    const watch = () => new IntersectionObserver((entries) => (seen = entries.at(-1).isIntersecting)).observe(prompt.svg.closest("figure"));
    const why = html("p", { class: "about" }, "This browser cannot train here: it runs no vectors in WebAssembly (SIMD). What plays is a stored run.");
    const parts = [
      row("buttons", player, single, again, able && controls.heads.element),
      able ? row("buttons tries", html("span", {}, "Try:"), ...chips) : why,
      tallies,
      row("plots", prompt.svg, losses.svg),
      able && about,
      words,
      row("plots", omegas.svg, mus.svg, maps, way.svg),
      able && settings,
    ].filter(Boolean);
    let begun = false;
    const first = () => {
      if (begun) return redraw();
      begun = true;
      watch();
      begin();
    };
    /** A run by itself, for tests and measurements: what it is at some steps. */
    const course = (settings, record) => iclbook.training.worker()("course", { run: described({ ...data.begin, ...settings }), record });
    return { parts, redraw: first, state, run, course, circuits, predict, attention, play, busy: () => busy };
  };

  const begin = () => iclbook.model("train", build);
  if (iclbook.training) begin();
  else document.head.append(iclbook.kit.html("script", { src: `${folder}kernels/trainer.js`, onload: begin }));
})();
