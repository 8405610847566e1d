/* What a reader may ask of a whole page: the code of its figures, a hint where something is wider than the screen, and paper. */

// 1. One switch a page shows the code of the figures; without scripts each cell has a bar of its own.
window.addEventListener("DOMContentLoaded", () => {
  const bars = document.querySelectorAll(".bd-article div.cell.tag_hide-input > details.above-input");
  const line = document.querySelector(".iclbook-summary");
  if (!bars.length || !line) return;
  const page = document.documentElement;
  const input = Object.assign(document.createElement("input"), { type: "checkbox" });
  const label = Object.assign(document.createElement("label"), { className: "iclbook-code-switch" });
  label.append(input, " show the code of the figures");
  line.append(" · ", label);
  const show = () => {
    page.dataset.code = input.checked ? "shown" : "hidden";
    for (const bar of bars) bar.open = input.checked;
  };
  input.addEventListener("change", show);
  show();
});

// 2. What scrolls sideways says so, as long as it is wider than the screen.
(() => {
  const boxes = ".bd-article table, .bd-article .iclbook-scroll, .bd-article .pst-scrollable-table-container, .bd-article .iclbook-sliders > .widget-box:not(.iclbook-controls)";
  const say = () => {
    for (const box of document.querySelectorAll(boxes)) {
      const wide = box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX);
      const before = box.previousElementSibling;
      const hint = before?.matches(".iclbook-hint") ? before : null;
      if (wide && !hint) {
        const what = box.matches(".widget-box") ? "figure" : "table";
        box.before(Object.assign(document.createElement("p"), { className: "iclbook-hint", textContent: `↔ The ${what} is wider than the screen: move it sideways.` }));
      } else if (!wide) hint?.remove();
    }
  };
  const later = () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => requestAnimationFrame(say));
  window.addEventListener("load", later);
  window.addEventListener("resize", later);
  document.addEventListener("toggle", later, true); // a fold opens
  window.iclbookHints = later; // sliders.js: a slider has come
})();

// 3. On paper everything is open and light; afterwards the page is as it was.
(() => {
  let undo = [];
  const change = (object, name, value) => {
    const old = object[name];
    undo.push(() => (old === undefined ? delete object[name] : (object[name] = old)));
    object[name] = value;
  };
  window.addEventListener("beforeprint", () => {
    if (undo.length) return;
    change(document.documentElement.dataset, "theme", "light");
    const closed = ".bd-article details:not([open], .above-input, .below-input, .iclbook-origin)";
    for (const fold of document.querySelectorAll(closed)) change(fold, "open", true);
    for (const image of document.querySelectorAll(".bd-article img[loading=lazy]")) change(image, "loading", "eager");
  });
  window.addEventListener("afterprint", () => {
    for (const back of undo.reverse()) back();
    undo = [];
  });
})();
