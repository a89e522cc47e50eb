// Shared by all participant pages: dialogs, local times, busy buttons.

// The text of `words` with `%(name)s` filled in.
export function fill(words, values) {
  return words.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
}

// The form of a sentence for a number: `forms` is keyed by CLDR plural category.
export function plural(forms, n) {
  const category = new Intl.PluralRules(document.documentElement.lang).select(n);
  return fill(forms[category] ?? forms.other, { n });
}

// Characters as the server counts them: code points, not UTF-16 units.
export function countChars(text) {
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

// Storage may be forbidden (private windows, frames); then nothing is kept.
export const kept = {
  get(key) {
    try {
      return sessionStorage.getItem(key) ?? "";
    } catch {
      return "";
    }
  },
  set(key, value) {
    try {
      if (value) sessionStorage.setItem(key, value);
      else sessionStorage.removeItem(key);
    } catch {
      // This loses only a convenience.
    }
  },
};

export function keptClear() {
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith("confab.")) sessionStorage.removeItem(key);
    }
  } catch {
    // Then nothing is kept.
  }
}

export const byId = (id) => document.getElementById(id);

// Hide or show a part of the page. If it had the focus, move the focus to what `next()` returns, not to the top of the
// page.
export function hiddenSet(part, isHidden, next) {
  const hadFocus = isHidden && part.contains(document.activeElement);
  part.hidden = isHidden;
  if (hadFocus) next()?.focus({ preventScroll: true });
}

// Browsers without <dialog> show it in the page.
export function dialogOpen(dialog) {
  if (dialog.showModal) dialog.showModal();
  else dialog.setAttribute("open", "");
}

export function dialogClose(dialog) {
  if (dialog.close) dialog.close();
  else dialog.removeAttribute("open");
}

// Send a form as by its button.
export function formSend(form) {
  if (form.requestSubmit) form.requestSubmit();
  else form.submit();
}

function dialogsWire() {
  let opener = null;
  const hasDialogs = "HTMLDialogElement" in window;
  for (const button of document.querySelectorAll("[data-opens]")) {
    if (!hasDialogs && button.href) continue; // a link leads there without a dialog
    button.hidden = false;
    button.addEventListener("click", (event) => {
      event.preventDefault();
      const around = button.closest("dialog");
      if (around) dialogClose(around);
      opener = opener?.isConnected && around ? opener : button;
      dialogOpen(byId(button.dataset.opens));
    });
  }
  for (const form of hasDialogs ? [] : document.querySelectorAll('form[method="dialog"]')) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialogClose(form.closest("dialog"));
    });
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("close", () => {
      if (!document.querySelector("dialog[open]")) opener?.focus();
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialogClose(dialog); // the backdrop
    });
  }
}

function timesLocalise() {
  const styles = {
    time: { timeStyle: "short" },
    datetime: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" },
  };
  for (const time of document.querySelectorAll("time[data-local]")) {
    const at = new Date(time.dateTime);
    // Digits as everywhere on the page, because codes and scales use no others.
    time.textContent = new Intl.DateTimeFormat(document.documentElement.lang, {
      ...styles[time.dataset.local],
      numberingSystem: "latn",
    }).format(at);
  }
}

// A pressed button shows its busy text, keeps its width and does not send twice.
export function busyWire(within = document) {
  for (const form of within.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      if (form.dataset.sent) {
        event.preventDefault();
        return;
      }
      form.dataset.sent = "yes";
      const button = event.submitter;
      if (button?.dataset.busy) {
        button.style.setProperty("min-width", `${button.offsetWidth}px`);
        button.textContent = button.dataset.busy;
      }
    });
  }
  // After returning through the page cache, forms can be submitted again.
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}

// A message to the researchers is sent from its dialog, without loading another page.
function messageFormWire() {
  const form = document.querySelector("dialog .message-form");
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const error = form.querySelector(".field-error");
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const response = await fetch(form.action, { method: "POST", body: new FormData(form) });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const problem = page.querySelector(".message-form .field-error")?.textContent.trim();
      if (!response.ok && !problem) throw new Error(String(response.status));
      error.textContent = problem ?? "";
      form.nextElementSibling.hidden = Boolean(problem);
      if (!problem) form.reset();
    } catch {
      error.textContent = form.dataset.failed;
    }
    button.disabled = false;
  });
}

// A page returned for an incomplete form becomes an ordinary page in the history. Otherwise the back button and a
// reload would show the browser's own question about resubmitting the form.
function answerMadeVisit() {
  history.replaceState(history.state, "", location.href);
}

// A browser that translates the page changes what is rated. Store this once per page: Google's translator and Firefox
// change the document's language, Edge marks its elements.
function translationWatch() {
  const address = document.querySelector("[data-translated]")?.dataset.translated;
  const root = document.documentElement;
  const { lang } = root;
  if (!address || !document.querySelector("[name=csrfmiddlewaretoken]")) return;
  const watch = new MutationObserver(() => {
    const isMarked = /\btranslated-(ltr|rtl)\b/.test(root.className) || root.hasAttribute("_msttexthash");
    if (!isMarked && root.lang === lang && !document.querySelector("[_msttexthash]")) return;
    watch.disconnect();
    const form = new FormData();
    form.set("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]").value);
    fetch(address, { method: "POST", body: form }).catch(() => {});
  });
  watch.observe(root, { attributes: true, attributeFilter: ["class", "lang"] });
  watch.observe(document.querySelector("main"), { attributes: true, subtree: true, attributeFilter: ["_msttexthash"] });
}

answerMadeVisit();
translationWatch();
dialogsWire();
timesLocalise();
messageFormWire();
busyWire();
