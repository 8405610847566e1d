/* The search page: places whose text has all the words that are asked for, each with the first sentence that has one of them. The text of the pages is
   search_text.js, written when the book is built. Titles count most; 0.13 and .13 are one number, plateaus finds plateau. */
(() => {
  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const query = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  const results = document.getElementById("search-results");
  const make = (tag, text = "", attributes = {}) => Object.assign(document.createElement(tag), { textContent: text }, attributes);
  const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  /** A word as a pattern: a number as it stands, any other from its beginning. */
  const pattern = (word) =>
    /^\d*\.?\d+$/.test(word)
      ? new RegExp(`(?<![\\d.])${word.startsWith(".") ? "0?" : ""}${escaped(word)}(?![\\d])(?!\\.\\d)`, "gu")
      : new RegExp(`(?<![\\p{L}\\p{N}])${escaped(word.length > 4 ? word.replace(/s$/, "") : word)}`, "giu");
  const words = query.match(/\d*\.\d+|[\p{L}\p{N}_]+/gu) ?? [];
  const patterns = words.map(pattern);
  const count = (text, each) => text.match(each)?.length ?? 0;

  /** The sentence of a text that has most of the words, shortened around the first of them, the words marked. */
  const sentence = (text) => {
    const all = text.split(/\n|(?<=[.?!])\s+(?=[\p{Lu}\d(])/u);
    const has = (part) => patterns.filter((each) => count(part, each)).length;
    let best = all.reduce((a, b) => (has(b) > has(a) ? b : a));
    const first = Math.min(best.length, ...patterns.map((each) => best.search(each)).filter((at) => at >= 0));
    if (best.length > 260) {
      const from = Math.max(0, best.lastIndexOf(" ", Math.max(0, first - 110)));
      best = `${from ? "… " : ""}${best.slice(from, from + 260).replace(/\s\S*$/, "")} …`;
    }
    const line = make("p", "", { className: "context" });
    let at = 0;
    for (const hit of best.matchAll(new RegExp(patterns.map((each) => each.source).join("|"), "giu"))) {
      const word = best.slice(hit.index).match(/^[\p{L}\p{N}.]*[\p{L}\p{N}]/u)?.[0] ?? hit[0];
      line.append(best.slice(at, hit.index), make("mark", word));
      at = hit.index + word.length;
    }
    line.append(best.slice(at));
    return line;
  };

  window.iclbookSearch = (places) => {
    const found = [];
    for (const [page, place, title, name, text] of places) {
      const everywhere = `${name} ${text}`;
      if (!patterns.every((each) => count(everywhere, each))) continue;
      const score = patterns.reduce((sum, each) => sum + 20 * count(name, each) + 5 * count(title, each) + Math.min(5, count(text, each)), 0);
      found.push({ score, page, place, title, name, text });
    }
    found.sort((a, b) => b.score - a.score);
    const pages = new Set(found.map(({ page }) => page)).size;
    const list = make("ul", "", { className: "search" });
    for (const { page, place, title, name, text } of found) {
      const item = make("li");
      item.append(make("a", name || title, { href: `${page}.html#${place}` }));
      if (name !== title) item.append(make("span", ` – ${title}`, { className: "where" }));
      const line = sentence(text);
      if (line.textContent) item.append(line);
      list.append(item);
    }
    const howMany = found.length === 1 ? "One place" : `${found.length} places`;
    const said = found.length ? `${howMany} on ${pages === 1 ? "one page" : `${pages} pages`}` : `No place has ${words.length > 1 ? "all of these words" : "this word"}. Try fewer, or the beginning of a word.`;
    results.replaceChildren(make("p", said, { className: "search-summary", role: "status" }), list);
  };

  const input = document.querySelector(".bd-search-container input[name=q]");
  if (input) input.value = query;
  if (!patterns.length) return;
  results.append(make("p", "Searching…"));
  document.head.append(make("script", "", { src: `${folder}search_text.js`, onerror: () => results.replaceChildren(make("p", "The text of the pages is not there.")) }));
})();
