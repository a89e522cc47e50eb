// What every page of the way needs: dialogs, local times, buttons that say they are busy.

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

// Storage that may be forbidden (private windows, frames): then nothing is kept.
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
      // Only a convenience is lost.
    }
  },
};

export function keptClear() {
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith("confab.")) sessionStorage.removeItem(key);
    }
  } catch {
    // Nothing is kept, then.
  }
}

export const byId = (id) => document.getElementById(id);

// Hide or show a part of the page. If the focus was in it, it moves to what `next()` returns: nobody begins again at the top.
export function hiddenSet(part, isHidden, next) {
  const hadFocus = isHidden && part.contains(document.activeElement);
  part.hidden = isHidden;
  if (hadFocus) next()?.focus({ preventScroll: true });
}

function dialogsWire() {
  let opener = null;
  for (const button of document.querySelectorAll("[data-opens]")) {
    button.hidden = false;
    button.addEventListener("click", (event) => {
      event.preventDefault(); // of a link, which leads there without script
      button.closest("dialog")?.close();
      opener = opener?.isConnected && button.closest("dialog") ? opener : button;
      byId(button.dataset.opens).showModal();
    });
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("close", () => {
      if (!document.querySelector("dialog[open]")) opener?.focus();
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close(); // the backdrop
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
    // Digits as everywhere on the page: codes and scales have no others.
    time.textContent = new Intl.DateTimeFormat(document.documentElement.lang, {
      ...styles[time.dataset.local],
      numberingSystem: "latn",
    }).format(at);
  }
}

// A button that was pressed says so and does not send twice; its width stays.
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
  // Back from the page cache the forms may be sent again.
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}

// A page that answers a form, because something was missing, counts from now on as one that was asked for. Or the back
// button and a reload would end at the browser's own page about sending the form again.
function answerMadeVisit() {
  history.replaceState(history.state, "", location.href);
}

answerMadeVisit();
dialogsWire();
timesLocalise();
busyWire();
