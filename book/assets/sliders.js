/* What the widgets leave out: names and spoken values of the slider handles. */
(() => {
  const set = (element, name, value) => {
    if (value && element.getAttribute(name) !== value) element.setAttribute(name, value);
  };
  const describe = () => {
    for (const handle of document.querySelectorAll(".iclbook-controls .noUi-handle")) {
      const row = handle.closest(".widget-slider");
      set(handle, "aria-label", row?.querySelector(".widget-label")?.textContent);
      set(handle, "aria-valuetext", row?.querySelector(".widget-readout")?.textContent);
    }
    for (const readout of document.querySelectorAll(".iclbook-controls .widget-readout[contenteditable=true]")) {
      readout.contentEditable = "false"; // typing there does nothing to a slider through a list of values
    }
    ["Play or pause", "Stop"].forEach((name, number) => {
      for (const button of document.querySelectorAll(`.iclbook-play .widget-play button:nth-of-type(${number + 1})`)) {
        set(button, "aria-label", name);
      }
    });
    for (const label of document.querySelectorAll(".iclbook-sliders [title=null]")) {
      label.removeAttribute("title"); // the widget manager writes a missing tooltip as the word null
    }
  };
  // The widgets appear after load, and a moved slider changes its readout.
  window.addEventListener("load", () => {
    new MutationObserver(describe).observe(document.body, { childList: true, subtree: true, characterData: true });
    describe();
  });
})();
