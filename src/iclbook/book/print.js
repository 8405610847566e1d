// Waits for every picture and formula; makes tables that are wider than the page smaller, or much wider ones to lists of labelled cells, and formulas smaller;
// then says what is not shown.
const done = arguments[0];
const pictures = [...document.images];
Promise.all([window.MathJax?.startup?.promise, document.fonts.ready, ...pictures.map((i) => i.decode().catch(() => 0))]).then(() => {
  const width = (element) => element.getBoundingClientRect().width;
  const tables = [...document.querySelectorAll("article table")].map((table) => [table, width(table) / width(table.parentElement)]);
  for (const [table, excess] of tables) {
    if (excess > 1.2 && table.querySelector("td[data-label]")) table.classList.add("book-rows");
    else if (excess > 1) table.style.fontSize = `${0.78 / excess}em`;
  }
  const excesses = [...document.querySelectorAll("mjx-container")].map((formula) =>
    [formula, width(formula.querySelector("mjx-math") ?? formula) / width(formula.closest("p, div, li, td, dd") ?? document.body)]);
  for (const [formula, excess] of excesses) if (excess > 1) formula.style.fontSize = `${95 / excess}%`;
  done([
    ...pictures.filter((i) => !i.naturalWidth).map((i) => "the picture " + i.src.slice(-80)),
    ...[...document.querySelectorAll("mjx-merror")].map((e) => "the formula " + e.title),
  ]);
});
