/* Sliders when a reader comes near: their frames and the widget manager are most of a page's weight, and stay on the disk until then. */
(() => {
  const { state, manager } = document.currentScript.dataset;
  const here = new URL(document.currentScript.src);
  const load = (address) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: address, onload: resolve, onerror: reject });
      document.head.append(script);
    });
  const drawn = new Promise((resolve) =>
    document.readyState === "complete" ? resolve() : window.addEventListener("load", resolve, { once: true }),
  );
  let begun;
  // The manager waits for the page's load event, which is over by now: what it would do then is done when it has come.
  const begin = async () => {
    await drawn;
    await load(new URL(state, here));
    const waiting = [];
    const listen = window.addEventListener;
    window.addEventListener = function (type, action, ...rest) {
      if (type === "load") waiting.push(action);
      else listen.call(window, type, action, ...rest);
    };
    try {
      await load(new URL(manager, here));
    } finally {
      delete window.addEventListener;
    }
    waiting.forEach((action) => action(new Event("load")));
  };
  window.iclbookSliders = () => (begun ??= begin());

  document.addEventListener("DOMContentLoaded", () => {
    const near = new IntersectionObserver(
      (seen) => {
        if (!seen.some((entry) => entry.isIntersecting)) return;
        near.disconnect();
        window.iclbookSliders();
      },
      { rootMargin: "200px" },
    );
    for (const view of document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]')) {
      near.observe(view.parentElement);
    }
  });
})();
