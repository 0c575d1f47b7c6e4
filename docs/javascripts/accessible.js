// The search takes a dash in front of a word for "not", and finds nothing for --judge-model.
document.querySelector("[data-md-component=search-query]").addEventListener(
  "input",
  (event) => {
    const words = event.target.value.replace(/(^|\s)-+(?=[^\s-])/g, "$1");
    if (words !== event.target.value) event.target.value = words;
  },
  true,
);
document$.subscribe(() =>
  requestAnimationFrame(() => {
    // A wide table scrolls. The keyboard can scroll it too if its frame takes the focus.
    for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) {
      frame.tabIndex = 0;
    }
    // The theme makes the button that copies a block a landmark of the page, once for each block.
    for (const buttons of document.querySelectorAll(".md-code__nav")) {
      buttons.setAttribute("role", "none");
    }
  }),
);
