/* A worker that trains he2025's model by the library's own C (src/iclbook/native) compiled to WebAssembly (attention.js beside this file).
   iclbook.training.able() says whether this browser can; iclbook.training.worker() -> ask(kind, what), a promise of the worker's answer. */
(() => {
  const folder = document.currentScript?.src.replace(/[^/]*$/, "");

  /** What the worker does; it becomes a text, for pages opened from the disk cannot load a worker's file. */
  const work = () => {
    const [MOST, D] = [8, 6];
    let [kernels, heads] = [null, 0];
    const loaded = async (text) => {
      const gzipped = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      const bytes = await new Response(new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
      return (await WebAssembly.instantiate(bytes, {})).instance.exports;
    };
    /** Q, K, V and O one after the other, (H, D, D) each. */
    const parameters = () => {
      const size = heads * D * D;
      const out = new Float32Array(4 * size);
      for (let i = 0; i < 4; i++) out.set(new Float32Array(kernels.memory.buffer, kernels.parameters() + 4 * i * MOST * D * D, size), i * size);
      return out;
    };
    const start = (run) => {
      heads = run.heads;
      kernels.describe(run.L, run.noise, run.beta);
      kernels.start(heads, run.batch, run.seed, run.state, run.scale / Math.sqrt(D), run.scale / Math.sqrt(heads * D), run.activation, run.scores);
    };
    /** So many steps, or as many as fit into some milliseconds. */
    const go = ({ steps, rate, plain = false, budget = Infinity }) => {
      const began = performance.now();
      let [done, sum, now] = [0, 0, began];
      while (done < steps) {
        const perStep = done ? (now - began) / done : 1;
        const n = Math.max(1, Math.min(steps - done, Math.floor((began + budget - now) / perStep / 2), 64));
        sum += kernels.train(n, rate, plain);
        done += n;
        now = performance.now();
        if (now - began >= budget) break;
      }
      return { steps: done, loss: sum / done, took: now - began, parameters: parameters() };
    };
    const answers = {
      start: (run) => {
        start(run);
        return { steps: 0, parameters: parameters() };
      },
      go,
      /** A whole run by itself: what it is at some steps. */
      course: ({ run, record }) => {
        start(run);
        let at = 0;
        return record.map((step) => {
          const made = go({ steps: step - at, rate: run.rate });
          at = step;
          return { ...made, parameters: [...parameters()] };
        });
      },
    };
    let ready = null;
    self.onmessage = async ({ data: { id, kind, asked } }) => {
      if (kind === "load") return void (ready = loaded(asked));
      kernels = await ready;
      const answer = answers[kind](asked);
      self.postMessage({ id, kind, answer });
    };
  };

  /** A worker as a function: ask(kind, what) -> a promise of its answer. */
  const trainer = () => {
    const address = URL.createObjectURL(new Blob([`(${work})()`], { type: "text/javascript" }));
    const worker = new Worker(address);
    const waiting = new Map();
    let count = 0;
    worker.onmessage = ({ data: { id, answer } }) => {
      waiting.get(id)(answer);
      waiting.delete(id);
    };
    const post = (kind, asked) => worker.postMessage({ id: ++count, kind, asked });
    const loading = kernels().then((text) => post("load", text));
    return async (kind, asked) => {
      await loading;
      post(kind, asked);
      return new Promise((resolve) => waiting.set(count, resolve));
    };
  };
  let fetched = null;
  const kernels = () =>
    (fetched ??= new Promise((resolve) => {
      if (iclbook.kernels) return resolve(iclbook.kernels.bytes);
      const script = document.createElement("script");
      script.src = `${folder}attention.js`;
      script.onload = () => resolve(iclbook.kernels.bytes);
      document.head.append(script);
    }));

  /** Whether this browser runs vectors in WebAssembly: the smallest module that has one. */
  const able = () =>
    typeof DecompressionStream === "function" &&
    WebAssembly.validate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]));

  iclbook.training = { able, worker: trainer };
})();
