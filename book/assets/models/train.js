/* He et al. 2025: the paper's model trains in the page, by the library's own C (src/iclbook/native) compiled to WebAssembly (kernels/attention.js).
   A worker takes the steps; with every picture it is asked for the next ones, so that a page out of sight trains nothing. The panel opens at the end of a
   stored run, which also plays where a browser cannot train. Orange adds, blue subtracts, here as in every picture of it. */
(() => {
  const folder = document.currentScript?.src.replace(/[^/]*$/, "");
  const build = (data, { html, svg, set, number, plot, handles, slider, choice, button, row, legend, eventually, softmax, dot }) => {
    const { d, limits, levels, paper } = data;
    const D = d + 1;
    let able = iclbook.training.able();
    const state = { ...data.begin, playing: false, query: data.query, tried: "pair", stored: true };
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
    let worker = null;
    const stored = film();
    const ask = async (kind, what) => {
      if (!able) return stored(kind);
      worker ??= iclbook.training.worker();
      return worker(kind, what);
    };
    const last = () => (able ? data.most : data.film.at(-1).step);
    /** The worker was refused or has failed: the stored run stands there again, and plays. */
    const fail = () => {
      if (!able) return;
      able = false;
      busy = false;
      Object.assign(state, data.begin, { stored: true });
      play(false);
      for (const part of root.querySelectorAll(".needs-worker")) part.hidden = true;
      why.hidden = false;
      rest = 150;
      open();
    };
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
    /** gamma = sum |mu omega| / sum |mu|. */
    const gamma = (heads) => heads.reduce((sum, { mu, omega }) => sum + Math.abs(mu * omega), 0) / heads.reduce((sum, { mu }) => sum + Math.abs(mu), 0);

    let asked = 0; // runs that were started: what belongs to an earlier one is not kept
    const begin = async () => {
      const mine = ++asked;
      busy = false;
      state.stored = false;
      Object.assign(run, { done: 0, loss: NaN, records: [], moments: [], sum: 0, since: 0, last: 0 });
      try {
        const answer = await ask("start", described(state));
        if (mine !== asked) return;
        run.heads = answer.heads ?? circuits(answer.parameters, state.heads, data.scores[state.scores]);
        label();
        later();
      } catch {
        fail();
      }
    };
    /** The stored run, at its end. */
    const open = () => {
      asked += 1;
      Object.assign(run, { done: 0, loss: NaN, records: [], moments: [], sum: 0, since: 0, last: 0, perSecond: 0 });
      data.film.forEach(({ step, loss, heads }, i) => {
        if (i) keep({ steps: step - data.film[i - 1].step, loss, heads: heads.map(measured) });
      });
      label();
      later();
    };
    const keep = (answer) => {
      run.done += answer.steps;
      run.sum += answer.loss * answer.steps;
      run.since += answer.steps;
      run.heads = answer.heads ?? circuits(answer.parameters, state.heads, data.scores[state.scores]);
      if (run.moments.length < data.moments.length && run.done >= data.moments[run.moments.length]) run.moments.push({ step: run.done, heads: run.heads });
      if (run.done < 1.02 * run.last) return;
      run.loss = run.sum / run.since;
      run.records.push({ step: run.done, loss: run.loss, heads: run.heads.map(({ omega, mu }) => [omega, mu]) });
      Object.assign(run, { sum: 0, since: 0, last: run.done });
    };
    const finished = () => state.stored || run.done >= last();
    /** Steps of the next picture: as many as make the logarithm of their number grow evenly, or as the budget allows. */
    const pace = () => Math.min(last() - run.done, Math.max(2, Math.ceil(run.done / 25)));
    const BUDGET = 13; // milliseconds of a picture's 17
    let busy = false;
    const more = async (steps, budget) => {
      if (busy || finished()) return;
      busy = true;
      const mine = asked;
      let answer;
      try {
        answer = await ask("go", { steps, rate: state.rate, budget });
      } catch {
        return fail();
      }
      if (mine !== asked) return;
      busy = false;
      run.perSecond = answer.took > 4 ? (1000 * answer.steps) / answer.took : run.perSecond;
      keep(answer);
      if (finished()) play(false);
      label();
      later();
    };
    let [seen, drawn] = [true, 0];
    let rest = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 500 : able ? 0 : 150;
    const frame = (now) => {
      if (!state.playing) return;
      requestAnimationFrame(frame);
      if (!seen || busy || now - drawn < rest) return;
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

    const grid = Array.from({ length: 65 }, (_, i) => -4 + i / 8);
    const inside = (y) => Math.min(9, Math.max(-9, y));
    /** The answer of some heads at the grid, as it is drawn. */
    const drawnAnswer = (heads, now) => grid.map((x) => [x, inside(predict(heads, now, onLine(x)))]);
    const adds = ({ mu }) => mu > 0;
    /** The lines of an answer: one gradient step, each head by itself, and their sum; and what draws them. */
    const answers = (area) => {
      const step = area.line("reference dashed");
      const own = Array.from({ length: limits.heads[1] }, () => area.add("path", {}));
      const sum = area.line("answer");
      return (heads, now) => {
        step([-4, 4].map((x) => [x, descend(x)]));
        own.forEach((path, h) => {
          const points = heads[h] ? drawnAnswer([heads[h]], now) : [];
          set(path, { class: `line own ${heads[h] && adds(heads[h]) ? "positive" : "negative"}`, d: area.trace(points) });
        });
        const line = drawnAnswer(heads, now);
        sum(line);
        return line;
      };
    };
    const prompt = plot({ x: [-4, 4], y: [-4, 4], xlabel: "x", ylabel: "y", title: "the answer", label: "A prompt of pairs and the answers of the heads" });
    const discs = pairs.map(() => prompt.add("circle", {}));
    const mark = prompt.add("line", { class: "query", y1: prompt.edge.top, y2: prompt.edge.top + prompt.inner.height });
    const drawAnswers = answers(prompt);
    const points = handles(prompt, {
      items: () => pairs.map((pair) => ({ ...pair, kind: "pair", size: 3 })),
      move: (i, x, y) => Object.assign(pairs[i], { x, y }),
      name: (i) => `pair ${i + 1} of ${pairs.length}`,
      value: (i) => `x ${number(pairs[i].x)}, y ${number(pairs[i].y)}`,
      changed: () => later(),
    });
    const query = handles(prompt, {
      items: () => [{ x: state.query, y: Math.min(4, Math.max(-4, run.heads.length ? predict(run.heads, tokens(), onLine(state.query)) : 0)), kind: "asked", size: 7 }],
      move: (_, x) => (state.query = x),
      name: () => "query",
      value: () => `x ${number(state.query)}`,
      fixed: "y",
      changed: () => later(),
    });
    let drawnLine = [];
    const drawPrompt = () => {
      const now = tokens();
      drawnLine = drawAnswers(run.heads, now);
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

    /** Four moments of the run, small: step, picture, and who adds and who subtracts. */
    const strip = data.moments.map(() => {
      const area = plot({ width: 160, height: 100, x: [-4, 4], y: [-4, 4], bare: true, label: "A moment of the run" });
      const dots = pairs.map(() => area.add("circle", { class: "pair", r: 1.5 }));
      const [at, words] = [html("b"), html("span")];
      return { area, dots, at, words, draw: answers(area), element: row("moment", at, area.svg, words) };
    });
    const drawStrip = () => {
      const now = tokens();
      strip.forEach(({ area, dots, at, words, draw, element }, i) => {
        const moment = run.moments[i];
        element.hidden = !moment;
        const key = moment && JSON.stringify([moment.step, asked, state.activation, pairs]);
        if (!moment || key === element.dataset.drawn) return;
        element.dataset.drawn = key;
        draw(moment.heads, now);
        dots.forEach((dot, k) => set(dot, { cx: area.toX.to(pairs[k].x).toFixed(2), cy: area.toY.to(pairs[k].y).toFixed(2) }));
        at.textContent = `step ${number(moment.step, 0)}`;
        words.textContent = who(moment.heads);
        area.says(`step ${number(moment.step, 0)}. ${shapeOf(drawnAnswer(moment.heads, now))}`);
      });
    };

    const along = { width: 340, height: 210, x: [10, 1000], logX: true, xlabel: "step" };
    const losses = plot({ ...along, height: 250, y: [0, 1.3], ylabel: "loss", title: "the loss", label: "Training loss against the step" });
    const omegas = plot({ ...along, y: [-0.8, 0.8], ylabel: "ω", title: "ω: where a head looks", label: "omega of each head against the step" });
    const mus = plot({ ...along, y: [-4.2, 4.2], ylabel: "μ", title: "μ: what it adds", label: "mu of each head against the step" });
    const flats = levels.map(({ loss }) => ({ loss, line: losses.line("reference dashed") }));
    const curve = losses.line("answer");
    const papers = [[omegas, paper.omega], [mus, paper.mu]].map(([area, v]) => ({ v, lines: [area.line("paper dashed"), area.line("paper dashed")] }));
    const lines = [omegas, mus].map((area) => Array.from({ length: limits.heads[1] }, () => area.add("path", {})));
    const marks = data.moments.map(() => losses.add("circle", { class: "moment", r: 3.5 }));

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
        parts.push(svg("text", { class: "name", x: x0, y: y0 + 6 }, `head ${h + 1}`), ...kq, ...ov);
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
      if (losses.x[1] !== end) for (const area of [losses, omegas, mus]) area.axes({ x: [10, end] });
      for (const { loss, line } of flats) line([[10, loss], [end, loss]]);
      const plain = state.activation === "softmax";
      for (const { v, lines: [up, down] } of papers) {
        up(plain ? [[10, v], [end, v]] : []);
        down(plain ? [[10, -v], [end, -v]] : []);
      }
      named.replaceChildren(...names.slice(0, run.heads.length), ...(plain ? [names.at(-1)] : []));
      const shown = run.records;
      const from = Math.max(0, shown.findIndex(({ step }) => step >= 10) - 1);
      const some = shown.slice(from);
      curve(some.map(({ step, loss }) => [step, Math.min(loss, 9)]));
      marks.forEach((dot, i) => {
        const moment = run.moments[i];
        const record = moment && run.records.findLast(({ step }) => step <= moment.step);
        set(dot, { visibility: record ? "visible" : "hidden", cx: record ? losses.toX.to(Math.max(10, moment.step)).toFixed(2) : 0, cy: record ? losses.toY.to(Math.min(record.loss, 9)).toFixed(2) : 0 });
      });
      losses.says(Number.isFinite(run.loss) ? `${number(run.loss, 3)} at step ${number(run.done, 0)}` : "no step yet");
      if (!inner.open) return;
      lines.forEach((group, kind) =>
        group.forEach((path, h) => {
          const area = [omegas, mus][kind];
          const points = h < run.heads.length ? some.map(({ step, heads }) => [step, heads[h][kind]]) : [];
          const sign = points.length && adds(run.heads[h]) ? "positive" : "negative";
          set(path, { class: `line ${sign} of${h + 1}`, d: area.trace(points) });
        }),
      );
      omegas.says(run.heads.map(({ omega }, h) => `head ${h + 1} ${number(omega)}`).join(", "));
      mus.says(run.heads.map(({ mu }, h) => `head ${h + 1} ${number(mu)}`).join(", "));
    };
    // ---- words -------------------------------------------------------------------------------------------------------

    /** How a drawn line [x, y] bends, rms distance from its best straight line over its rms; the slope of that line; and whether it levels off at both ends. */
    const shape = (line) => {
      const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
      const [x, y] = [line.map(([u]) => u), line.map(([, v]) => v)];
      const [mx, my] = [mean(x), mean(y)];
      const slope = mean(line.map(([u, v]) => (u - mx) * (v - my))) / mean(x.map((u) => (u - mx) ** 2));
      const left = mean(line.map(([u, v]) => (v - my - slope * (u - mx)) ** 2));
      const end = (i, j) => Math.abs(y[i] - y[j]) < 0.5 * Math.abs(slope * (x[i] - x[j]));
      return { bend: Math.sqrt(left / mean(y.map((v) => v * v))), slope, levels: end(0, 8) && end(64, 56) };
    };
    const percent = (v) => `${number(100 * v, 0)} %`;
    /** What the answer is, from the line as it is drawn; and, where it is straight, whether the two sides by themselves are not. */
    const shapeOf = (line, heads = []) => {
      const { bend, slope, levels } = shape(line);
      if (!Number.isFinite(bend)) return "";
      const by = `departs from a straight line by ${percent(bend)} of its size`;
      const straight = bend < data.straight;
      const sides = [true, false].map((sign) => heads.filter((head) => adds(head) === sign));
      const bends = straight && sides.every((side) => side.length) ? sides.map((side) => shape(drawnAnswer(side, tokens())).bend) : [];
      const cancel = bends.length && Math.min(...bends) > 2 * data.straight ? ` The heads that add bend by ${percent(bends[0])}, those that subtract by ${percent(bends[1])}: in the sum the bends cancel.` : "";
      const off = !straight && levels ? " Towards both edges it levels off." : "";
      return `The answer ${straight ? "runs straight" : "bends"}: it ${by}. Its slope is ${percent(slope / descend(1))} of one gradient step's.${off}${cancel}`;
    };
    const counts = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight"];
    const low = (n) => counts[n].toLowerCase();
    /** The step of gradient descent that a head makes by itself, to first order in omega. */
    const does = ({ mu, omega }) => Math.abs(mu * omega);
    /** How many heads add, subtract, and do little: less than a fifth of what the largest does, or than a hundredth, where all of them together come to about one. */
    const who = (heads) => {
      const least = Math.max(0.2 * Math.max(...heads.map(does)), 0.01);
      const busyHeads = heads.filter((head) => does(head) >= least);
      const up = busyHeads.filter(adds).length;
      const down = busyHeads.length - up;
      const idle = heads.length - busyHeads.length;
      if (!busyHeads.length) return `${idle > 1 ? "All heads are" : "The head is"} near zero`;
      const [n, verb] = up ? [up, "add"] : [down, "subtract"];
      const first = `${counts[n]} ${n > 1 ? `heads ${verb}` : `head ${verb}s`}`;
      const second = up && down ? `, ${low(down)} ${down > 1 ? "subtract" : "subtracts"}` : "";
      return `${first}${second}${idle ? `; ${low(idle)} ${idle > 1 ? "do" : "does"} little` : ""}`;
    };

    const figures = { step: html("b"), loss: html("b"), bend: html("b"), slope: html("b"), speed: html("b") };
    const tallies = row("tallies", ...[["step", "step"], ["loss", "loss"], ["bend", "bend"], ["slope", "slope"], ["steps a second", "speed"]].map(([label, name]) => html("span", {}, figures[name], html("i", {}, label))));
    const size = html("p", { class: "about" });
    const words = html("p", { class: "says", role: "status" });
    const sentence = (line) => {
      if (!run.done) return `${counts[state.heads]} ${state.heads === 1 ? "head starts" : "heads start"} from random numbers. Press ${verb()}.`;
      if (!run.heads.every(({ mu, omega }) => Number.isFinite(mu + omega))) return "This run has diverged. Lower the rate, and start again.";
      const at = `Step ${number(run.done, 0)}${state.stored ? ", the end of a stored run" : run.done >= last() ? ", finished" : ""}: `;
      if (run.loss > 3) return `${at}the loss is ${number(run.loss, 1)}, more than answering zero costs. Lower the rate.`;
      const text = who(run.heads);
      return `${at}${text[0].toLowerCase()}${text.slice(1)}. ${shapeOf(line, run.heads)}`;
    };
    let [told, when, waiting] = ["", -1e9, 0];
    const tell = () => {
      const line = drawnLine;
      prompt.says(shapeOf(line));
      const text = sentence(line);
      // words and numbers stay for a second, to be read, and are of one step
      const left = state.playing && text !== told ? 1000 - (performance.now() - when) : 0;
      clearTimeout(waiting);
      if (left > 0) return void (waiting = setTimeout(later, left));
      const { bend, slope } = shape(line);
      figures.step.textContent = number(run.done, 0);
      figures.loss.textContent = Number.isFinite(run.loss) ? number(run.loss, 3) : "–";
      figures.bend.textContent = Number.isFinite(bend) ? percent(bend) : "–";
      figures.slope.textContent = Number.isFinite(slope) ? percent(slope / descend(1)) : "–";
      figures.speed.textContent = run.perSecond ? number(Number(run.perSecond.toPrecision(2)), 0) : "–";
      size.textContent = `γ = ${number(gamma(run.heads), 3)}, the mean of |ω|, weighted by |μ|`;
      if (text === told) return;
      [told, when] = [text, performance.now()];
      words.textContent = text;
    };

    const redraw = () => {
      if (!run.heads.length) return;
      if (tiles.length !== run.heads.length) layMaps();
      drawPrompt();
      drawStrip();
      drawCourse();
      if (inner.open) drawMaps();
      tell();
    };
    const later = eventually(redraw);

    // ---- hands -------------------------------------------------------------------------------------------------------

    const label = () => {
      player.textContent = state.playing ? "Pause" : finished() ? `${verb()} again` : verb();
      single.disabled = finished();
      single.title = finished() ? "This run is at its end: go back to the start first." : "";
    };
    const play = async (on) => {
      if (state.playing === on) return;
      state.playing = on;
      label();
      if (on && finished()) await begin();
      if (state.playing && on) requestAnimationFrame(frame);
      later();
    };
    const verb = () => (able ? "Train" : "Play");
    const player = button("Train again", () => play(!state.playing));
    player.classList.add("main");
    const single = button("One step", () => {
      play(false);
      more(1);
    });
    const again = button("Back to the start", () => {
      play(false);
      begin();
    });
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
        play(false);
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
    const why = html("p", { class: "about" }, iclbook.training.refused, "What plays is a stored run.");
    why.hidden = able;
    const named = legend();
    const names = [...legend(...lines[0].map((_, h) => [`of${h + 1}`, `head ${h + 1}`]), ["paper dashed", `the paper's ±${paper.omega} and ±${paper.mu}`]).children];
    const inner = html("details", { ontoggle: () => later() }, html("summary", {}, "Inside the heads: ω, μ, circuits"), size, row("plots", omegas.svg, mus.svg, maps), named);
    const marked = levels.map(({ name, loss }) => `${name} ${number(loss, 3)}`).join(", ");
    const key = legend(["answer", "the answer, the sum of all heads"], ["own positive", "a head that adds"], ["own negative", "a head that subtracts"], ["reference dashed", `one gradient step; in the loss, from above: ${marked}`]);
    const root = html("div", {}, row("buttons", player, single, again, controls.heads.element), why, row("buttons tries", html("span", {}, "Try:"), ...chips), about, row("plots", prompt.svg, losses.svg), key, words, row("moments", ...strip.map(({ element }) => element)), tallies, inner, settings);
    for (const part of [controls.heads.element, chips[0].parentElement, about, settings]) {
      part.classList.add("needs-worker");
      part.hidden = !able;
    }
    let begun = false;
    const first = () => {
      if (begun) return redraw();
      begun = true;
      watch();
      open();
    };
    /** A run by itself, for tests and measurements: what it is at some steps. */
    const course = (settings, record) => iclbook.training.worker()("course", { run: described({ ...data.begin, ...settings }), record });
    return { parts: [root], redraw: first, state, run, course, circuits, predict, attention, begin, more, play, busy: () => busy };
  };

  const begin = () => iclbook.model("train", build);
  if (iclbook.training) begin();
  else document.head.append(iclbook.kit.html("script", { src: `${folder}kernels/trainer.js`, onload: begin }));
})();
