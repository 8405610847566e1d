/* What the models in the page share: plots, handles to drag, sliders. Its numbers come from numbers.js. No build step, nothing from outside.

   A model is one file beside this one: iclbook.model("name", (data, kit) => ({ parts, redraw, ...answers })). Its figure stands in the page as
   <figure data-model="name"> with its numbers as JSON and a still picture (src/iclbook/sliders/page_model.py). Here the file is loaded where a
   figure asks for it; until then, without scripts and on paper, the still picture shows. What a model returns stays on figure.iclbook, where
   the tests ask it for answers. */
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const folder = document.currentScript?.src.replace(/[^/]*$/, "");
  const builders = {};
  const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  // ---- elements ----------------------------------------------------------------------------------------------------

  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const set = (element, attributes) => fill(element, attributes, []);
  /** A number for a reader: so many decimals (or `most` of them, without zeros at the end), thousands apart, a true minus. */
  const formats = {};
  const number = (value, digits = 2, most = digits) => {
    const format = (formats[`${digits} ${most}`] ??= new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: most }));
    return format.format(Math.abs(value) < 0.5 * 10 ** -most ? 0 : value).replace("-", "−");
  };

  // ---- plots -------------------------------------------------------------------------------------------------------

  /** Round numbers in a range, about `count` of them; powers of ten on a logarithmic axis. */
  const ticks = ([low, high], log, count = 5) => {
    if (log) {
      const first = Math.ceil(Math.log10(low) - 1e-9);
      const last = Math.floor(Math.log10(high) + 1e-9);
      const every = Math.ceil((last - first + 1) / 6);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((p) => (p - first) % every === 0).map((p) => 10 ** p);
    }
    const raw = (high - low) / count;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  };
  const tickText = (value, log) => {
    if (!log) return number(value, 0, 6);
    const power = Math.round(Math.log10(value));
    const signs = String(power).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return Math.abs(power) <= 2 ? String(Number(value.toPrecision(1))) : `10${signs}`;
  };

  /** A plot of `width` x `height` units, which are CSS pixels where there is room. Options: x, y ranges; logX, logY; xlabel, ylabel; label. */
  const plot = ({ width = 340, height = 250, x, y, logX, logY, xlabel, ylabel, label, title, bare }) => {
    const edge = bare ? { left: 1, right: 1, top: title ? 22 : 1, bottom: 1 } : { left: 46, right: 10, top: title ? 24 : 10, bottom: 40 };
    const inner = { width: width - edge.left - edge.right, height: height - edge.top - edge.bottom };
    const scale = (range, log, from, size) => {
      const f = log ? Math.log : (v) => v;
      const [low, high] = range.map(f);
      return {
        to: (v) => from + ((f(v) - low) / (high - low)) * size,
        back: (p) => (log ? Math.exp : (v) => v)(low + ((p - from) / size) * (high - low)),
      };
    };
    const made = { x, y, width, height, edge, inner };
    const back = svg("g", { class: "back", "aria-hidden": "true" });
    const curves = svg("g", { class: "curves", "aria-hidden": "true" });
    const front = svg("g", { class: "front" });
    made.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, back, curves, front);
    made.front = front;
    /** What the plot shows now, for a screen reader. */
    made.says = (text) => made.svg.setAttribute("aria-label", `${label}: ${text}`);
    /** New ranges of the axes, and what belongs to them. */
    made.axes = (ranges) => {
      Object.assign(made, ranges);
      made.toX = scale(made.x, logX, edge.left, inner.width);
      made.toY = scale(made.y, logY, edge.top + inner.height, -inner.height);
      const parts = [];
      if (!bare) {
        for (const v of ticks(made.x, logX)) {
          const at = made.toX.to(v);
          parts.push(svg("line", { class: "grid", x1: at, x2: at, y1: edge.top, y2: edge.top + inner.height }));
          parts.push(svg("text", { x: at, y: edge.top + inner.height + 15, "text-anchor": "middle" }, tickText(v, logX)));
        }
        for (const v of ticks(made.y, logY)) {
          const at = made.toY.to(v);
          parts.push(svg("line", { class: "grid", x1: edge.left, x2: edge.left + inner.width, y1: at, y2: at }));
          parts.push(svg("text", { x: edge.left - 6, y: at + 4, "text-anchor": "end" }, tickText(v, logY)));
        }
        const [cx, cy] = [edge.left + inner.width / 2, edge.top + inner.height / 2];
        parts.push(svg("text", { class: "label", x: cx, y: height - 6, "text-anchor": "middle" }, xlabel));
        parts.push(svg("text", { class: "label", x: 11, y: cy, transform: `rotate(-90 11 ${cy})`, "text-anchor": "middle" }, ylabel));
      }
      if (title) parts.push(svg("text", { class: "title", x: edge.left, y: 14 }, title));
      parts.push(svg("rect", { class: "frame", x: edge.left, y: edge.top, width: inner.width, height: inner.height }));
      back.replaceChildren(...parts);
    };
    made.axes({});
    const clip = `iclbook-clip-${Math.random().toString(36).slice(2)}`;
    made.svg.prepend(svg("clipPath", { id: clip }, svg("rect", { x: edge.left, y: edge.top, width: inner.width, height: inner.height })));
    curves.setAttribute("clip-path", `url(#${clip})`);
    /** A curve that `draw(points)` moves; points are [x, y]. */
    made.line = (kind) => {
      const path = svg("path", { class: `line ${kind}` });
      curves.append(path);
      return (points) => path.setAttribute("d", made.trace(points));
    };
    made.trace = (points) => points.map(([u, v], i) => `${i ? "L" : "M"}${made.toX.to(u).toFixed(2)} ${made.toY.to(v).toFixed(2)}`).join("");
    /** Any other shape, below the handles. */
    made.add = (tag, attributes) => {
      const shape = svg(tag, attributes);
      curves.append(shape);
      return shape;
    };
    /** Where a pointer is, in the plot's own numbers. */
    made.where = (event) => {
      const box = made.svg.getBoundingClientRect();
      const unit = width / box.width;
      return [made.toX.back((event.clientX - box.left) * unit), made.toY.back((event.clientY - box.top) * unit)];
    };
    return made;
  };

  /** Handles on a plot, moved by pointer, touch and keys. One of them takes the tab key; page up and down go to its neighbours.

      items() -> [{ x, y, kind, text, size }]; move(i, x, y) takes what the reader asks; name(i), value(i) say it; fixed: "x" or "y" does not move;
      remove(i) answers the delete key. */
  const handles = (area, { items, move, name, value, fixed, remove, changed }) => {
    const group = svg("g", { class: "handles" });
    area.front.append(group);
    area.svg.setAttribute("role", "group"); // a picture has no parts
    let active = 0;
    let held = null;
    const at = (i) => group.children[i];
    const clamp = (v, [low, high]) => Math.min(high, Math.max(low, v));
    const go = (i, x, y) => {
      move(i, clamp(x, area.x), clamp(y, area.y));
      changed();
    };
    const focus = (i) => {
      active = (i + group.children.length) % group.children.length;
      redraw();
      at(active)?.focus();
    };
    const step = (event, i) => {
      const item = items()[i];
      const pixels = event.shiftKey ? 20 : 4;
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (dx || dy) {
        const [u, v] = fixed === "y" ? [dx || -dy, 0] : fixed === "x" ? [0, dy || -dx] : [dx, dy];
        go(i, area.toX.back(area.toX.to(item.x) + pixels * u), area.toY.back(area.toY.to(item.y) + pixels * v));
      } else if (event.key === "PageDown" || event.key === "PageUp") focus(i + (event.key === "PageDown" ? 1 : -1));
      else if (remove && (event.key === "Delete" || event.key === "Backspace")) {
        remove(i);
        changed();
        if (group.children.length) focus(Math.min(i, group.children.length - 1));
      } else return;
      event.preventDefault();
    };
    const make = (i) => {
      const handle = svg("g", { class: "handle", role: "slider" }, svg("circle", { class: "reach", r: 16 }), svg("circle", { class: "ring", r: 10 }), svg("circle", { class: "dot" }), svg("text", { "text-anchor": "middle", dy: 4, "aria-hidden": "true" }));
      handle.addEventListener("keydown", (event) => step(event, i));
      handle.addEventListener("focus", () => {
        active = i;
        redraw();
      });
      return handle;
    };
    const nearest = (event) => {
      const [x, y] = area.where(event);
      const far = (item) => (area.toX.to(item.x) - area.toX.to(x)) ** 2 + (area.toY.to(item.y) - area.toY.to(y)) ** 2;
      return items().reduce((best, item, i, all) => (far(item) < far(all[best]) ? i : best), 0);
    };
    group.addEventListener("pointerdown", (event) => {
      held = nearest(event);
      active = held;
      redraw();
      at(held).focus({ preventScroll: true });
      group.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    group.addEventListener("pointermove", (event) => {
      if (held !== null) go(held, ...area.where(event));
    });
    for (const end of ["pointerup", "pointercancel"]) group.addEventListener(end, () => (held = null));
    const range = fixed === "y" ? area.x : area.y;
    const redraw = () => {
      const all = items();
      while (group.children.length > all.length) group.lastChild.remove();
      while (group.children.length < all.length) group.append(make(group.children.length));
      active = Math.min(active, all.length - 1);
      all.forEach((item, i) => {
        const handle = at(i);
        set(handle, {
          class: `handle ${item.kind ?? ""}`,
          transform: `translate(${area.toX.to(item.x).toFixed(2)} ${area.toY.to(item.y).toFixed(2)})`,
          tabindex: i === active ? 0 : -1,
          "aria-label": name(i),
          "aria-valuemin": range[0],
          "aria-valuemax": range[1],
          "aria-valuenow": Number((fixed === "y" ? item.x : item.y).toPrecision(4)),
          "aria-valuetext": value(i),
        });
        handle.querySelector(".dot").setAttribute("r", item.size ?? 6);
        handle.querySelector("text").textContent = item.text ?? "";
      });
    };
    return { redraw, focus };
  };

  // ---- controls ----------------------------------------------------------------------------------------------------

  /** A slider through a range, or with `log` through its logarithm. */
  const slider = ({ label, min, max, value, step, log, format = (v) => number(v), on }) => {
    const [f, back] = log ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const id = `iclbook-${Math.random().toString(36).slice(2)}`;
    const output = html("span", { class: "value", "aria-hidden": "true" }); // spoken as the slider's own value
    const input = html("input", { id, type: "range", min: f(min), max: f(max), step: step ?? (f(max) - f(min)) / 400 });
    const say = () => {
      output.textContent = format(back(Number(input.value)));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.value = f(value);
    say();
    input.addEventListener("input", () => {
      say();
      on(back(Number(input.value)));
    });
    const element = html("div", { class: "control" }, html("label", { for: id }, label), input, output);
    const put = (v) => {
      input.value = f(v);
      say();
    };
    return { element, input, put };
  };

  /** One of several, as radio buttons; options are [value, text, kind]. */
  const choice = ({ label, options, value, on }) => {
    const group = `iclbook-${Math.random().toString(36).slice(2)}`;
    const buttons = options.map(([option, text, kind]) => {
      const input = html("input", { type: "radio", name: group, onchange: () => on(option) });
      input.checked = option === value;
      return html("label", { class: kind ?? "" }, input, html("span", {}, text));
    });
    return { element: html("div", { class: "choice", role: "radiogroup", "aria-label": label }, html("span", {}, label), row("options", ...buttons)) };
  };
  const button = (label, on) => html("button", { type: "button", onclick: on }, label);
  const row = (kind, ...children) => html("div", { class: kind }, ...children);
  /** A sentence that says what the picture shows, also to a screen reader. */
  const says = () => html("p", { class: "says", role: "status" });
  const legend = (...entries) =>
    html("p", { class: "legend" }, ...entries.map(([kind, text]) => html("span", {}, svg("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, svg("path", { class: `line ${kind}`, d: "M0 4H24" })), text)));

  /** Call `draw` before the next picture, however often it is asked for until then. */
  const eventually = (draw) => {
    let asked = false;
    return () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        draw();
      });
    };
  };

  /** A play button that runs `on(part)` from 0 to 1; in ten steps for readers who want no motion. */
  const player = (label, seconds, on) => {
    let timer = null;
    const stop = () => {
      clearTimeout(timer);
      timer = null;
      element.textContent = label;
    };
    const element = button(label, () => {
      if (timer !== null) return stop();
      element.textContent = "Stop";
      const began = performance.now();
      const calm = still();
      let steps = 0;
      const tick = () => {
        const part = Math.min(1, calm ? steps++ / 10 : (performance.now() - began) / (1000 * seconds));
        on(part);
        if (part < 1) timer = setTimeout(tick, calm ? 100 * seconds : 30);
        else stop();
      };
      tick();
    });
    return { element, stop };
  };

  // ---- figures -----------------------------------------------------------------------------------------------------

  const kit = { html, svg, set, number, plot, handles, slider, choice, button, row, says, legend, eventually, player, ...window.iclbook.numbers };

  const start = (figure) => {
    const build = builders[figure.dataset.model];
    if (!build || figure.iclbook) return;
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    figure.iclbook = build(data, kit);
    figure.querySelector(".iclbook-live").replaceChildren(...figure.iclbook.parts);
    figure.iclbook.redraw();
    figure.classList.add("iclbook-runs");
  };
  const figures = () => document.querySelectorAll("figure[data-model]");
  window.iclbook = {
    kit,
    model: (name, build) => {
      builders[name] = build;
      figures().forEach(start);
    },
  };
  const load = () => {
    for (const name of new Set([...figures()].map((figure) => figure.dataset.model))) {
      if (builders[name] || !folder) continue;
      document.head.append(html("script", { src: `${folder}${name}.js` }));
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", load);
  else load();
})();
