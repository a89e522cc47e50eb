// After a form is submitted by keyboard and the same page returns, restore the focus: after a star, a tag, a search or
// a new order. If the page reports an error or a result, focus or announce that instead.
import { announce } from "./announce.js";

const KEPT = "confab-focus";
const HEARD_AFTER_MS = 500; // a live region is read when it changes, not when the page loads with it
let byKeys = false;

export function focusStart() {
  document.addEventListener("keydown", () => { byKeys = true; }, true);
  document.addEventListener("pointerdown", () => { byKeys = false; }, true);
  document.addEventListener("submit", (event) => {
    if (byKeys && !event.defaultPrevented) remember(document.activeElement, "", event.target.dataset.tells);
  });
  // Forms would keep the skip link's fragment in their addresses, and every resulting page would start there.
  addEventListener("hashchange", () => {
    if (location.hash === "#main") history.replaceState(history.state, "", location.pathname + location.search);
  });
  restore();
}

// Reload the page because its content is ready: keep the focus and announce the words.
export function reloadWith(words) {
  remember(document.activeElement, words);
  location.reload();
}

// Identifies the control on the new page: its id, its row's conversation, or its form and name.
function nameOf(control) {
  if (control.id) return `#${CSS.escape(control.id)}`;
  if (control.dataset.row) return `[data-row="${CSS.escape(control.dataset.row)}"]`;
  const action = control.form?.getAttribute("action");
  return action && control.name ? `form[action="${CSS.escape(action)}"] [name="${CSS.escape(control.name)}"]` : "";
}

function remember(control, words = "", tells = "") {
  const name = control && control !== document.body ? nameOf(control) : "";
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([location.pathname, name, words, tells]));
  } catch {
    // Without storage the page starts at its top.
  }
}

function restore() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(KEPT));
    sessionStorage.removeItem(KEPT);
  } catch {
    // As above.
  }
  if (!kept || !document.activeElement.matches("body, main")) return;
  const [page, name, words, tells] = kept;
  const isSame = page === location.pathname;
  const alerts = [...document.querySelectorAll("main [role=alert]")].filter((one) => one.textContent.trim());
  const wrong = isSame && !words && alerts[0];
  const control = isSame && name && !document.querySelector("main .has-error") ? document.querySelector(name) : null;
  // A form can name a further element that shows the outcome, such as the number of matching conversations.
  const said = isSame && tells ? document.querySelector(tells) : null;
  const told = document.querySelector("main .banner[role=status], main [data-told]") ?? said;
  const here = wrong || control || (words ? null : told);
  if (here && here !== control) here.tabIndex = -1;
  const fold = here?.closest("details:not([open])");
  (fold && !here.matches("summary") ? fold.querySelector("summary") : here)?.focus();
  const heard = words || (here === control && told?.textContent.trim().replace(/\s+/g, " "));
  if (heard) setTimeout(() => announce(heard), HEARD_AFTER_MS);
}
