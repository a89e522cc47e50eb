// Menus and sheets, marked data-closes: one is open at a time, and Escape closes it and gives the focus back to its opener. Those
// that lie over the page, data-closes="beyond", close at a click or a step of Tab beyond them, so that nothing in focus is hidden.
const OPEN = "details[data-closes][open]";
const OVER = "details[data-closes=beyond][open]";

export function menusStart() {
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && !event.defaultPrevented ? event.target.closest?.(OPEN) : null;
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  // The event does not bubble.
  document.addEventListener("toggle", (event) => event.target.matches?.(OPEN) && closeOthers(OPEN, event.target), true);
  for (const beyond of ["pointerdown", "focusin"]) document.addEventListener(beyond, (event) => closeOthers(OVER, event.target));
}

function closeOthers(menus, target) {
  for (const menu of document.querySelectorAll(menus)) if (!menu.contains(target)) menu.open = false;
}
