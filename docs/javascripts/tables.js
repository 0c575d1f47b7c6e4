// A wide table scrolls. The keyboard can scroll it too if its frame takes the focus.
document$.subscribe(() =>
  requestAnimationFrame(() => {
    for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) {
      frame.tabIndex = 0;
    }
  }),
);
