// Whoever sends a form by keys and comes back to the same page goes on where they were, not at its top: a star, a tag, a search, another
// order. Pages that begin with what went wrong begin there.
const KEPT = "confab-focus";
let byKeys = false;

export function focusStart() {
  document.addEventListener("keydown", () => { byKeys = true; }, true);
  document.addEventListener("pointerdown", () => { byKeys = false; }, true);
  document.addEventListener("submit", (event) => {
    if (byKeys && !event.defaultPrevented) remember(document.activeElement);
  });
  restore();
}

// What names the control on the page that comes: its id, the conversation of its row, or its form and name.
function nameOf(control) {
  if (control.id) return `#${CSS.escape(control.id)}`;
  if (control.dataset.row) return `[data-row="${CSS.escape(control.dataset.row)}"]`;
  const action = control.form?.getAttribute("action");
  return action && control.name ? `form[action="${CSS.escape(action)}"] [name="${CSS.escape(control.name)}"]` : "";
}

function remember(control) {
  const name = control && control !== document.body ? nameOf(control) : "";
  try {
    if (name) sessionStorage.setItem(KEPT, JSON.stringify([location.pathname, name]));
  } catch {
    // Without storage the page begins at its top.
  }
}

function restore() {
  try {
    const [page, name] = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    sessionStorage.removeItem(KEPT);
    if (page !== location.pathname || document.activeElement !== document.body) return;
    if (document.querySelector("main [role=alert], main .has-error")) return;
    const control = document.querySelector(name);
    const fold = control?.closest("details:not([open])");
    (fold && !control.matches("summary") ? fold.querySelector("summary") : control)?.focus();
  } catch {
    // As above.
  }
}
