/* The scoreboard's filters: lines whose verdict, paper, kind and text fit stay, the others are hidden. */
window.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".iclbook-filters");
  if (!form) return;
  const lines = [...document.querySelectorAll(".iclbook-list span[data-verdict]")].map((key) => {
    const row = key.closest("tr");
    return { row, key: key.dataset, text: row.textContent.toLowerCase() };
  });
  const show = () => {
    const wanted = Object.fromEntries(new FormData(form));
    const words = wanted.text.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const { row, key, text } of lines) {
      const fits = ["verdict", "paper", "kind"].every((name) => !wanted[name] || key[name] === wanted[name]);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    for (const list of document.querySelectorAll(".iclbook-list")) {
      list.closest("section").hidden = !list.querySelector("tbody tr:not([hidden])");
    }
    form.querySelector("output").textContent = `${shown} of ${lines.length}`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
});
