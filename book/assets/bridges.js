/* Places where the page's own scripts and the widget manager's do not fit, or say what no reader needs; and what links and the keyboard need. Loaded before both. */

// 1. The widget manager typesets labels through MathJax 2's queue; the page carries MathJax 3.
//    Give every object that becomes window.MathJax (first its configuration, then the library) that one function.
(() => {
  let current;
  const hub = {
    Queue: ([, , element]) => {
      const typeset = () => current.typesetPromise && current.typesetPromise([element]);
      if (current.startup?.promise) current.startup.promise.then(typeset);
    },
  };
  Object.defineProperty(window, "MathJax", {
    configurable: true,
    get: () => current,
    set: (value) => {
      if (value && !value.Hub) value.Hub = hub;
      current = value;
    },
  });
})();

// 2. The widget manager's schema checker complains about its own schema on every page; nothing of ours is meant.
(() => {
  const warn = console.warn;
  console.warn = (...words) => {
    if (!String(words[0]).startsWith("strict mode: use allowUnionTypes")) warn.apply(console, words);
  };
})();

// 3. An icon of our own, inline: otherwise the browser asks the server for a favicon.ico that is not there.
(() => {
  const icon = document.createElement("link");
  icon.rel = "icon";
  icon.href =
    "data:image/svg+xml," +
    encodeURIComponent(
      '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="7" height="14" x="1" y="1" fill="#0072b2"/>' +
        '<rect width="7" height="14" x="8" y="1" fill="#d55e00"/></svg>',
    );
  document.head.append(icon);
})();

// 4. A link lands on its place: what is closed around it opens, and what is drawn late (formulas, sliders) does not push it out of the window.
(() => {
  let place, taken;
  const land = () => {
    if (place && !taken) place.scrollIntoView({ behavior: "instant" });
  };
  const reveal = () => {
    place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    taken = false;
    for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    land();
  };
  // From then on the reader moves the page.
  for (const name of ["wheel", "touchmove", "keydown", "pointerdown"]) window.addEventListener(name, () => (taken = true), { passive: true });
  window.addEventListener("hashchange", reveal);
  window.addEventListener("DOMContentLoaded", () => {
    reveal();
    new ResizeObserver(land).observe(document.body);
  });
})();

// 5. What scrolls sideways on this screen can be reached, and scrolled, with the keyboard.
(() => {
  const boxes = ".bd-article table, .bd-article .pst-scrollable-table-container, .bd-article .iclbook-scroll, .bd-article div.math, .bd-article span.math, .bd-article mjx-container, .bd-article .cell_output";
  const reach = () => {
    for (const box of document.querySelectorAll(boxes)) {
      if (box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX)) {
        box.tabIndex = 0;
        if (box.matches("span.math, mjx-container")) [box.role, box.ariaLabel] = ["group", "Formula, wider than the screen"];
      } else if (box.matches("span.math, mjx-container")) {
        for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      }
    }
  };
  window.addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(reach));
  window.addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true); // a fold opens
})();
