// Menus and sheets, marked data-closes: only one is open at a time, and Escape closes it and returns the focus to its
// opener. Those that cover the page, data-closes="beyond", also close when the user clicks or tabs outside, so that
// they never hide the focus. A link to a folded part of the page unfolds it.
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
  document.addEventListener("click", (event) => {
    const to = event.target.closest?.("a[href^='#']")?.getAttribute("href");
    if (to) setTimeout(() => unfold(to)); // after the browser's own jump, which moves the focus
  });
  unfold(location.hash);
  for (const beyond of ["pointerdown", "focusin"]) document.addEventListener(beyond, (event) => closeOthers(OVER, event.target));
}

function closeOthers(menus, target) {
  for (const menu of document.querySelectorAll(menus)) if (!menu.contains(target)) menu.open = false;
}

function unfold(hash) {
  const found = hash?.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  const fold = found?.closest("details");
  if (!fold) return;
  fold.open = true;
  if (fold === found) fold.querySelector("summary").focus();
}
