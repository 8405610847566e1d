// What JupyterLab lacks to read a chapter: injected numbers, citations, boxes, folded code. Only what is shown changes, never the notebook.
// A federated module written by hand: JupyterLab asks it for './extension', and it asks JupyterLab for the parts that it works on.
(() => {
  const here = document.currentScript.src;
  let shared;

  async function part(name) {
    const versions = Object.values(shared[name]);
    return (await versions[0].get())();
  }

  // --- boxes: ":::{note} Title" and "```{note} Title" become elements that Markdown lets through -------------------------------------
  const OPEN = /^(:{3,}|`{3,})\{([\w-]+)\}[ \t]*(.*)$/;
  const OPTION = /^:[\w-]+:.*$/;
  const FOLDED = ["dropdown", "toggle", "solution"];

  function boxes(source) {
    const out = [], open = [];
    const lines = source.split("\n");
    for (let i = 0; i < lines.length; i++) {
      const start = lines[i].match(OPEN);
      const fence = lines[i].trim();
      if (start && !["math", "code", "code-block", "eval-rst", "raw"].includes(start[2])) {
        const [, mark, kind, title] = start;
        while (i + 1 < lines.length && OPTION.test(lines[i + 1])) i++;
        const folded = FOLDED.includes(kind);
        const head = title || (kind === "admonition" ? "" : kind[0].toUpperCase() + kind.slice(1));
        out.push("", folded ? `<details class="iclbook-box"><summary>${head}</summary>` : `<div class="iclbook-box">`, "");
        if (!folded && head) out.push(`**${head}**`, "");
        open.push([mark, folded ? "</details>" : "</div>"]);
      } else if (open.length && fence === open.at(-1)[0]) {
        out.push("", open.pop()[1], "");
      } else {
        out.push(lines[i]);
      }
    }
    while (open.length) out.push("", open.pop()[1]);
    return out.join("\n");
  }

  // --- roles: Markdown leaves "{glue:text}" as text before the code element that holds the key ---------------------------------------
  const ROLE = /\{(glue:text|glue|cite|cite:p|cite:t)\}$/;

  function fillRoles(node, values, citations) {
    for (const code of node.querySelectorAll("code")) {
      const before = code.previousSibling;
      const role = before?.nodeType === Node.TEXT_NODE && before.data.match(ROLE);
      if (!role) continue;
      before.data = before.data.slice(0, -role[0].length);
      const shown = document.createElement(role[1].startsWith("glue") ? "span" : "a");
      shown.dataset.key = code.textContent;
      if (role[1].startsWith("glue")) {
        shown.className = "iclbook-value";
      } else {
        cite(shown, role[1], citations);
      }
      code.replaceWith(shown);
    }
    for (const span of node.querySelectorAll(".iclbook-value")) {
      const text = values(span.dataset.key);
      const shown = text ?? "(not run)";
      if (span.textContent === shown) continue;
      span.textContent = shown;
      span.title = text === undefined ? `${span.dataset.key}: run the notebook to measure it` : span.dataset.key;
    }
  }

  function cite(link, role, citations) {
    const found = link.dataset.key.split(",").map((key) => citations[key.trim()] ?? { authors: key.trim() });
    const years = (paper) => (paper.year ? ` (${paper.year})` : "");
    link.textContent = role === "cite:t"
      ? found.map((paper) => paper.authors + years(paper)).join(", ")
      : `[${found.map((paper) => [paper.authors, paper.year].filter(Boolean).join(", ")).join("; ")}]`;
    link.title = found.map((paper) => paper.title ?? "").join("; ");
    link.className = "iclbook-cite";
    if (found[0].url) Object.assign(link, { href: found[0].url, target: "_blank", rel: "noopener" });
  }

  // What a live notebook has recorded comes before what the last headless run did.
  function recorded(model) {
    const found = {};
    for (const cell of model?.cells ?? []) {
      for (let i = 0; i < (cell.outputs?.length ?? 0); i++) {
        const output = cell.outputs.get(i);
        const name = output.metadata?.scrapbook?.name;
        const data = name && output.toJSON().data["application/papermill.record/text/plain"];
        if (data !== undefined && name) found[name] = String(data).replace(/^'(.*)'$/s, "$1");
      }
    }
    return found;
  }

  function fold(cell) {
    const tags = cell.model.getMetadata("tags") ?? [];
    if (cell.model.type !== "code" || !tags.some((tag) => tag === "hide-input" || tag === "hide-cell")) return;
    cell.syncCollapse = false;  // the fold is the reader's, not the notebook's; turned on again, it would unfold
    cell.inputHidden = true;
  }

  async function watch(panel, stored, Actions) {
    await panel.context.ready;
    const chapter = panel.context.path.split("/").at(-1).replace(/\.\w+$/, "");
    let live = {};
    const values = (key) => live[key] ?? stored.values[chapter]?.[key];
    const fill = () => {
      for (const node of panel.node.querySelectorAll(".jp-RenderedMarkdown")) fillRoles(node, values, stored.citations);
    };
    const refresh = () => {
      live = recorded(panel.content.model);
      fill();
    };
    for (const cell of panel.content.widgets) Promise.resolve(cell.ready).then(() => fold(cell));
    new MutationObserver(fill).observe(panel.content.node, { childList: true, subtree: true });
    Actions.executed.connect((_, { notebook }) => notebook === panel.content && setTimeout(refresh, 50));
    refresh();
  }

  const STYLE = `
    .iclbook-value { font-weight: 500; }
    .iclbook-box { border-left: 4px solid var(--jp-brand-color2); background: var(--jp-layout-color2); padding: .4em 1em; margin: 1em 0; }
    .iclbook-box > summary { cursor: pointer; font-weight: 600; }`;

  async function extension() {
    const { INotebookTracker, NotebookActions } = await part("@jupyterlab/notebook");
    const { IRenderMimeRegistry } = await part("@jupyterlab/rendermime");
    return {
      id: "iclbook:chapters",
      autoStart: true,
      requires: [INotebookTracker, IRenderMimeRegistry],
      activate: (_, tracker, rendermime) => {
        const parser = rendermime.markdownParser;
        const render = parser.render.bind(parser);
        parser.render = (source) => render(boxes(source));
        document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
        const stored = fetch(new URL("values.json", here)).then((answer) => answer.json());
        tracker.widgetAdded.connect(async (_, panel) => watch(panel, await stored, NotebookActions));
      },
    };
  }

  (window._JUPYTERLAB ??= {}).iclbook = {
    init: (scope) => { shared = scope; },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
