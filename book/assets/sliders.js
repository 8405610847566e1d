/* What the widgets leave out: names and spoken values of the slider handles, and which button of a choice is pressed. */
(() => {
  const set = (element, name, value) => {
    if (value && element.getAttribute(name) !== value) element.setAttribute(name, value);
  };
  const panels = document.getElementsByClassName("iclbook-sliders");
  const describe = (panel) => {
    for (const handle of panel.querySelectorAll(".iclbook-controls .noUi-handle")) {
      const row = handle.closest(".widget-slider");
      set(handle, "aria-label", row?.querySelector(".widget-label")?.textContent);
      set(handle, "aria-valuetext", row?.querySelector(".widget-readout")?.textContent);
    }
    for (const choice of panel.querySelectorAll(".iclbook-choice")) {
      set(choice, "role", "group");
      set(choice, "aria-label", choice.querySelector(".widget-label")?.textContent);
      for (const button of choice.querySelectorAll("button")) set(button, "aria-pressed", String(button.matches(".mod-active")));
    }
    for (const frames of panel.querySelectorAll(":scope > .widget-box:not(.iclbook-controls)")) {
      if (frames.scrollWidth <= frames.clientWidth + 1) continue; // on a phone it is moved sideways
      for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": "Picture, wider than the screen" })) set(frames, name, value);
    }
    for (const readout of panel.querySelectorAll(".iclbook-controls .widget-readout[contenteditable=true]")) {
      readout.contentEditable = "false"; // typing there does nothing to a slider through a list of values
    }
    ["Play or pause", "Stop"].forEach((name, number) => {
      for (const button of panel.querySelectorAll(`.iclbook-play .widget-play button:nth-of-type(${number + 1})`)) {
        set(button, "aria-label", name);
      }
    });
    for (const label of panel.querySelectorAll("[title=null]")) {
      label.removeAttribute("title"); // the widget manager writes a missing tooltip as the word null
    }
  };
  // Frames are files, loaded as they are shown: those of a panel that a reader touches come ahead.
  const ahead = (event) => {
    const panel = event.target.closest?.(".iclbook-sliders");
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    for (const image of panel?.querySelectorAll(`.iclbook-frame .iclbook-${theme} img[loading=lazy]`) ?? []) image.loading = "eager";
  };
  for (const touched of ["pointerover", "focusin"]) document.addEventListener(touched, ahead);
  // The widgets appear after load, and a moved slider changes its readout: once a picture at most, or a slider would answer late.
  let asked = false;
  const later = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      for (const panel of panels) describe(panel);
      window.iclbookHints?.();
    });
  };
  window.addEventListener("load", () => {
    new MutationObserver(later).observe(document.body, { childList: true, subtree: true, characterData: true, attributeFilter: ["class"] });
    later();
  });
})();
