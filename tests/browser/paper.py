"""An open page on paper: which words are lost, what is wider than the sheet, and which text is grey."""

from .harness import Browser

#: CSS pixels between the margins of A4.
SHEET = 680
#: Words that have no meaning on paper: code that the page folds, data of figures, live models, signs of links.
LOST = """
const skipped = `script, style, noscript, mjx-container, title, .iclbook-live, .iclbook-origin, .iclbook-filters, .iclbook-hint, .iclbook-code-switch, .iclbook-permalink,
  a.headerlink, .widget-subarea, details.above-input, details.below-input, .copybtn, .iclbook-unseen`;
const article = document.querySelector("article");
if (!article) return []; // the search page
const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
const lost = [];
while (walker.nextNode()) {
  const [at, text] = [walker.currentNode.parentElement, walker.currentNode.textContent.trim()];
  if (!text || at.closest(skipped)) continue;
  let cut = !at.checkVisibility({ visibilityProperty: true });
  for (let box = at; box !== article && !cut; box = box.parentElement) {
    const { overflowY, position } = getComputedStyle(box);
    cut = overflowY === "hidden" && position !== "absolute" && box.scrollHeight > box.clientHeight + 2 && box.clientHeight > 0;
  }
  if (cut) lost.push(text.slice(0, 60));
}
return lost;
"""
WIDE = """
const sheet = document.querySelector("article") ?? document.body;
const end = Math.max(innerWidth, sheet.getBoundingClientRect().right) + 2;
return [...sheet.querySelectorAll("table, img, pre, .sd-card")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > end)
  .map((e) => `${e.tagName} ${e.className} ${Math.round(e.getBoundingClientRect().right)} > ${Math.round(end)}`);
"""


def lay_out(browser: Browser) -> None:
    """The page as the browser prints it, from whatever theme and with whatever closed."""
    browser.resize(SHEET)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    browser.frames()


def take_back(browser: Browser) -> None:
    """The page on the screen again."""
    browser.driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.frames()
