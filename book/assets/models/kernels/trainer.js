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
      try {
        kernels = await ready;
        self.postMessage({ id, answer: answers[kind](asked) });
      } catch (error) {
        self.postMessage({ id, error: String(error) });
      }
    };
  };

  /** A worker as a function: ask(kind, what) -> a promise of its answer, which is refused from the worker's first failure on. */
  const trainer = () => {
    const waiting = new Map();
    let [count, failed] = [0, null];
    const fail = (error) => {
      failed ??= new Error(`training in the page: ${error.message ?? error}`);
      for (const { reject } of waiting.values()) reject(failed);
      waiting.clear();
    };
    let worker;
    try {
      worker = new Worker(URL.createObjectURL(new Blob([`(${work})()`], { type: "text/javascript" })));
    } catch (error) {
      fail(error); // a policy of the page's server
      return async () => Promise.reject(failed);
    }
    worker.onerror = worker.onmessageerror = (event) => {
      event.preventDefault();
      fail(event);
    };
    worker.onmessage = ({ data: { id, answer, error } }) => {
      if (error) return fail(error);
      waiting.get(id)?.resolve(answer);
      waiting.delete(id);
    };
    const post = (kind, asked) => worker.postMessage({ id: ++count, kind, asked });
    const loading = kernels().then((text) => post("load", text));
    return async (kind, asked) => {
      await loading;
      if (failed) throw failed;
      post(kind, asked);
      return new Promise((resolve, reject) => waiting.set(count, { resolve, reject }));
    };
  };
  let fetched = null;
  const kernels = () =>
    (fetched ??= new Promise((resolve, reject) => {
      if (iclbook.kernels) return resolve(iclbook.kernels.bytes);
      const script = document.createElement("script");
      script.src = `${folder}attention.js`;
      Object.assign(script, { onload: () => resolve(iclbook.kernels.bytes), onerror: () => reject(new Error("attention.js is not there")) });
      document.head.append(script);
    }));

  /** Whether this browser runs vectors in WebAssembly: the smallest module that has one. */
  const able = () =>
    typeof DecompressionStream === "function" &&
    typeof Worker === "function" &&
    typeof WebAssembly === "object" && // absent where a browser locks itself down
    WebAssembly.validate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]));

  const refused = "This browser does not train here (its worker or WebAssembly with vectors is missing, refused or has failed). ";
  iclbook.training = { able, refused, worker: trainer };
})();
