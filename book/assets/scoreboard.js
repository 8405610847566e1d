/* The scoreboard's filters: nothing is listed until something is asked for; then lines whose verdict, chapter, kind and text fit. */
window.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".iclbook-filters");
  if (!form) return;
  const lines = [...document.querySelectorAll(".iclbook-list span[data-verdict]")].map((key) => {
    const row = key.closest("tr");
    return { row, key: key.dataset, text: row.textContent.toLowerCase() };
  });
  const show = () => {
    const wanted = Object.fromEntries(new FormData(form));
    form.classList.toggle("iclbook-rest", Object.values(wanted).every((value) => !value));
    if (wanted.chapter === "every") wanted.chapter = "";
    const words = wanted.text.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const { row, key, text } of lines) {
      const fits = ["verdict", "chapter", "kind"].every((name) => !wanted[name] || key[name] === wanted[name]);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    for (const list of document.querySelectorAll(".iclbook-list")) {
      list.closest("section").hidden = !list.querySelector("tbody tr:not([hidden])");
    }
    form.querySelector("output").textContent = form.matches(".iclbook-rest") ? `${lines.length}: choose which to list` : `${shown} of ${lines.length}`;
  };
  // A link to a chapter's lines, in the picture, the contents or the search, asks for them.
  const ask = () => {
    const key = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.querySelector(":scope > .iclbook-list [data-chapter]");
    if (!key) return show();
    form.reset();
    form.elements.chapter.value = key.dataset.chapter;
    show();
    key.closest("section").scrollIntoView({ behavior: "instant" });
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", ask);
  form.hidden = false;
  ask();
});
