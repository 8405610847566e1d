/* Five papers examine each other: how long attention waits from small starts, under plain gradient descent on fresh prompts and under Adam, trained in the page. */
(() => {
  const folder = document.currentScript?.src.replace(/[^/]*$/, "");
  const build = (data, { html, set, number, plot, slider, button, row, says, legend, eventually }) => {
    const rules = Object.keys(data.rates);
    const state = { heads: data.begin.heads, rates: { ...data.rates }, size: data.sizes[0], playing: false, stored: true };

    // ---- runs --------------------------------------------------------------------------------------------------------

    let [able, worker] = [iclbook.training.able(), null];
    const ask = (kind, what) => (worker ??= iclbook.training.worker())(kind, what);
    /** The worker was refused or has failed: the stored run stands there again. */
    const fail = () => {
      able = false;
      play(false);
      open();
    };
    const described = (job) => ({ ...data.run, heads: state.heads, batch: data.batch, seed: job.seed, scale: job.size, state: data.states[job.seed], activation: 0, scores: 1 });
    /** Runs in the order in which they are measured: each size by both rules, for one seed after the other. */
    const jobs = () => data.seeds.flatMap((seed) => data.sizes.flatMap((size) => rules.map((rule) => ({ seed, size, rule }))));
    let [todo, found, path, now] = [[], [], [], null];
    const open = () => {
      asked += 1;
      state.stored = true;
      [todo, found, path, now] = [[], data.stored.found, data.stored.path, null];
      for (const part of needs) part.hidden = !able;
      why.hidden = able;
      later();
    };
    let asked = 0;
    /** Steps of which one mean loss is taken: a sixteenth of those so far, so that a wait is known to a few parts in a hundred. */
    const chunk = (done) => Math.max(8, Math.floor(done / 16));
    const measure = async () => {
      const mine = asked;
      try {
        while (state.playing && todo.length && mine === asked) {
          now ??= { ...todo[0], done: 0, begun: false };
          if (!now.begun) {
            await ask("start", described(now));
            if (mine !== asked) return;
            Object.assign(now, { begun: true, done: 0 });
            path = [];
          }
          const steps = chunk(now.done);
          const { loss } = await ask("go", { steps, rate: state.rates[now.rule], plain: now.rule === "plain" });
          if (mine !== asked) return;
          const wait = now.done + steps / 2;
          now.done += steps;
          path.push([wait, loss]);
          if (loss < data.level || now.done > data.most || !Number.isFinite(loss)) {
            if (loss < data.level) found.push({ ...now, wait });
            todo.shift();
            now = null;
          }
          later();
          await new Promise((resolve) => (seen ? requestAnimationFrame(resolve) : (waiting = resolve)));
        }
      } catch {
        return fail();
      }
      if (!todo.length) play(false);
    };
    let [seen, waiting] = [true, null];
    const clear = () => {
      asked += 1;
      state.stored = false;
      [todo, found, path, now] = [jobs(), [], [], null];
      label();
      later();
      if (state.playing) measure();
    };

    // ---- the law: T ~ size^-(p - 2), its height from the dots --------------------------------------------------------

    const of = (rule) => found.filter((one) => one.rule === rule);
    const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
    const height = () => {
      const small = of("plain").filter(({ size }) => size <= data.small);
      return small.length ? median(small.map(({ size, wait }) => wait * size ** (data.degree - 2))) : NaN;
    };
    /** Factor by which the wait grows from one size to the next, over sizes that are small. */
    const growth = (rule) => {
      const small = data.sizes.filter((size) => size <= data.small).map((size) => of(rule).filter((one) => one.size === size).map(({ wait }) => wait));
      const known = small.filter((waits) => waits.length).map(median);
      return known.length > 1 ? (known.at(-1) / known[0]) ** (1 / (known.length - 1)) : NaN;
    };

    // ---- the picture -------------------------------------------------------------------------------------------------

    const area = { width: 340, height: 250, logX: true };
    const losses = plot({ ...area, x: [8, data.most], y: [0, 1.3], xlabel: "step", ylabel: "loss", title: "the run under way", label: "Loss against the step of the run under way" });
    const waits = plot({ ...area, x: [0.8 / data.sizes[0], 1.3 / data.sizes.at(-1)], y: [15, 1.5 * data.most], logY: true, xlabel: "1/ε, one over the size of the start", ylabel: "wait, steps", title: "the wait", label: "Wait against one over the size of the start" });
    const level = losses.line("reference dotted");
    const curve = losses.line("answer");
    const law = waits.line("reference dashed");
    const dots = data.seeds.flatMap(() => data.sizes.flatMap(() => rules.map(() => waits.add("circle", { class: "dot" }))));
    const words = says();
    const redraw = () => {
      level([[8, data.level], [data.most, data.level]]);
      curve(path);
      const h = height();
      law(Number.isFinite(h) ? data.sizes.map((size) => [1 / size, h / size ** (data.degree - 2)]) : []);
      dots.forEach((dot, i) => {
        const one = found[i];
        set(dot, { r: one ? 4.5 : 0, class: one?.rule === "plain" ? "end positive" : "end negative", cx: one ? waits.toX.to(1 / one.size).toFixed(2) : 0, cy: one ? waits.toY.to(one.wait).toFixed(2) : 0 });
      });
      losses.says(path.length ? `${number(path.at(-1)[1], 2)} at step ${number(path.at(-1)[0], 0)}` : "no step yet");
      waits.says(`${found.length} runs`);
      const text = say();
      if (text !== words.textContent) words.textContent = text;
    };
    const say = () => {
      if (now) return `${data.names[now.rule]} from size ${number(now.size, 0, 3)}, seed ${now.seed}: ${found.length} of ${found.length + todo.length} runs are through.`;
      const [plain, adam] = rules.map(growth);
      if (!Number.isFinite(plain)) return "Nothing is measured yet. Press Measure, or let it run on.";
      const law = (data.sizes.at(-2) / data.sizes.at(-1)) ** (data.degree - 2);
      return `With each halving from ε = ${data.small} on plain gradient descent waits ${number(plain, 1)} times as long (mean); the law says ${number(law, 0)}. Adam waits ${number(adam, 1)} times as long: its steps are as large however small the gradient is.`;
    };
    const later = eventually(redraw);

    // ---- hands -------------------------------------------------------------------------------------------------------

    const label = () => (player.textContent = state.playing ? "Pause" : todo.length ? "Measure" : "Measure again");
    const play = (on) => {
      if (state.playing === on) return;
      state.playing = on;
      label();
      later();
      if (!on) return;
      if (!todo.length) clear();
      else measure();
    };
    const player = button("Measure again", () => play(!state.playing));
    player.classList.add("main");
    const again = button("Back to the start", clear);
    const why = html("p", { class: "about" }, iclbook.training.refused, "The picture shows a stored run.");
    const heads = slider({ label: "heads", min: 1, max: data.heads, value: state.heads, step: 1, format: String, on: (v) => { state.heads = v; clear(); } });
    const rate = (rule) => slider({ label: { plain: "rate, descent", adam: "rate, Adam" }[rule], min: data.limits[rule][0], max: data.limits[rule][1], value: state.rates[rule], log: true, format: (v) => String(Number(v.toPrecision(2))), on: (v) => { state.rates[rule] = v; clear(); } });
    const needs = [row("buttons", player, again), row("controls", heads.element, ...rules.map((rule) => rate(rule).element))];
    const parts = [
      needs[0],
      why,
      row("plots", losses.svg, waits.svg),
      legend(["trail positive", data.names.plain], ["trail negative", data.names.adam], ["reference dashed", `the law of ${data.degree} factors, its height from the dots`], ["reference dotted", "the wait ends"]),
      words,
      needs[1],
    ];
    let begun = false;
    const first = () => {
      if (!begun)
        new IntersectionObserver((entries) => {
          seen = entries.at(-1).isIntersecting;
          if (seen) waiting?.();
        }).observe(losses.svg.closest("figure"));
      if (begun) return redraw();
      begun = true;
      open();
    };
    return { parts, redraw: first, state, play, found: () => found, growth };
  };

  const begin = () => iclbook.model("train_waits", build);
  if (iclbook.training) begin();
  else document.head.append(iclbook.kit.html("script", { src: `${folder}kernels/trainer.js`, onload: begin }));
})();
