// Two long conversations: side by side if there is room, as tabs on phones. Without scripts one is below the other.

import { kept } from "./page.js";

export function dialoguesWire(box, form) {
  const tablist = box.querySelector("[role=tablist]");
  const tabs = [...tablist.querySelectorAll("[role=tab]")];
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
  const first = document.getElementById("dialogue-first");
  const narrow = window.matchMedia("(max-width: 699.98px)");
  const key = `confab.${box.dataset.key}.opened`;
  let current = 0;
  let isOpened = Boolean(box.dataset.opened || kept.get(key));

  function show() {
    if (current === 1) {
      isOpened = true;
      kept.set(key, "yes");
      first.hidden = true;
    }
    if (isOpened) tabs[1].querySelector("small").textContent = box.dataset.read;
    tablist.hidden = !narrow.matches;
    tabs.forEach((tab, at) => {
      const isCurrent = at === current;
      tab.setAttribute("aria-selected", isCurrent);
      tab.tabIndex = isCurrent ? 0 : -1;
      panels[at].hidden = narrow.matches && !isCurrent;
      if (narrow.matches) panels[at].setAttribute("role", "tabpanel");
      else panels[at].removeAttribute("role");
    });
  }

  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => {
      current = at;
      show();
    });
  });
  tablist.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: 1 - current, ArrowRight: 1 - current, Home: 0, End: 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    current = to;
    show();
    tabs[current].focus();
  });
  // Run before the page's own listener, which would say that the answers are being saved.
  document.addEventListener(
    "submit",
    (event) => {
      if (event.target !== form || !narrow.matches || isOpened) return;
      event.preventDefault();
      first.hidden = true; // showing it again announces it again
      first.querySelector("span").textContent = box.dataset.first;
      first.hidden = false;
      tabs[1].focus();
    },
    true,
  );
  narrow.addEventListener("change", show);
  show();
}
