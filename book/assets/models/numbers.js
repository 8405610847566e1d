/* Numbers for the models in the page: softmax, and an integrator for their flows. Loaded before kit.js, which hands them on. */
(() => {
  const softmax = (scores) => {
    let top = -Infinity;
    for (const s of scores) if (s > top) top = s;
    const e = scores.map((s) => Math.exp(s - top));
    let total = 0;
    for (const v of e) total += v;
    return e.map((v) => v / total);
  };
  const dot = (a, b) => {
    let total = 0;
    for (let i = 0; i < a.length; i++) total += a[i] * b[i];
    return total;
  };

  /** A function that solves A x = b, for several b; A as rows, overwritten. Gauss with pivots. */
  const factor = (a) => {
    const n = a.length;
    const order = [...Array(n).keys()];
    for (let k = 0; k < n; k++) {
      let p = k;
      for (let i = k + 1; i < n; i++) if (Math.abs(a[i][k]) > Math.abs(a[p][k])) p = i;
      [a[k], a[p]] = [a[p], a[k]];
      [order[k], order[p]] = [order[p], order[k]];
      for (let i = k + 1; i < n; i++) {
        const m = (a[i][k] /= a[k][k]);
        if (m) for (let j = k + 1; j < n; j++) a[i][j] -= m * a[k][j];
      }
    }
    return (b) => {
      const x = order.map((i) => b[i]);
      for (let i = 1; i < n; i++) for (let j = 0; j < i; j++) x[i] -= a[i][j] * x[j];
      for (let i = n - 1; i >= 0; i--) {
        for (let j = i + 1; j < n; j++) x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
      }
      return x;
    };
  };

  /** The derivative of `f` at y by differences; how exact it is does not change what the integrator converges to. */
  const jacobian = (f, y, at) => {
    const columns = y.map((v, j) => {
      const size = 1e-7 * Math.max(Math.abs(v), 1e-3);
      const moved = [...y];
      moved[j] += size;
      return f(moved).map((w, i) => (w - at[i]) / size);
    });
    return y.map((_, i) => columns.map((column) => column[i]));
  };

  /** States at rising `times` of dy/dt = f(y), y(0) = start: linearly implicit Euler, extrapolated (Deuflhard's scheme in Hairer and Wanner,
      Solving ODEs II, IV.9), which also follows stiff valleys; without `stiff` the explicit Euler, which is cheaper. Local error below rtol |y| + atol. Ends early where enough(t, y) says so. */
  const flow = (f, start, times, { rtol = 1e-6, atol = 1e-12, stiff = true, enough = () => false } = {}) => {
    const ROWS = 8;
    const states = [];
    let [t, y, h] = [0, [...start], times[0] / 10 || times[1] / 100];
    let budget = 20000; // steps; a flow that needs more is given back as far as it came
    for (const end of times) {
      while (t < end && budget-- > 0) {
        const size = Math.min(h, end - t);
        const at = f(y);
        const slope = stiff && jacobian(f, y, at);
        let table = [];
        let [error, before, accepted] = [Infinity, Infinity, null];
        for (let j = 1; j <= ROWS && !accepted; j++) {
          const part = size / j;
          const solve = stiff ? factor(slope.map((r, i) => r.map((v, k) => (i === k) - part * v))) : (b) => b;
          let z = y;
          for (let k = 0; k < j; k++) {
            const change = solve(k ? f(z) : at);
            z = z.map((v, i) => v + part * change[i]);
          }
          const line = [z];
          for (let k = 1; k < j; k++) line.push(line[k - 1].map((v, i) => v + ((v - table[k - 1][i]) * (j - k)) / k));
          if (j > 1) {
            before = error;
            error = Math.sqrt(line[j - 1].reduce((sum, v, i) => sum + ((v - line[j - 2][i]) / (atol + rtol * Math.max(Math.abs(v), Math.abs(y[i])))) ** 2, 0) / y.length);
            if (error <= 1) accepted = { state: line[j - 1], order: j };
            else if (!(error < 2 * before)) break;
          }
          table = line;
        }
        if (accepted) {
          const last = size < h; // a step cut short by a time to report says little about the next
          t = last ? end : t + size;
          y = accepted.state;
          // few rows were needed: a longer step with more of them costs less, the derivative being the dear part
          const grow = Math.max(accepted.order < 6 ? 1.5 : 0.5, Math.min(4, 0.8 * Math.max(error, 1e-8) ** (-1 / accepted.order)));
          h = Math.max(last ? h : 0, size * grow);
        } else h = size * 0.25;
        if (t >= end) break;
      }
      if (t < end) break;
      states.push(y);
      if (enough(t, y)) break;
    }
    return states;
  };
  const logspace = (low, high, count) => Array.from({ length: count }, (_, i) => low * (high / low) ** (i / (count - 1)));

  window.iclbook = { numbers: { softmax, dot, flow, logspace } };
})();
