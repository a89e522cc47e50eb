// The conversation browser: rows open next to the list; Tab treats the list as one stop, and arrow keys move through
// it.
import { readerKeysMayAct, readerStart } from "./reader.js";
import { formsStart } from "./forms.js";
import { narrowStart } from "./narrow.js";
import { spreadStart } from "./spread.js";

const bench = document.querySelector("[data-workbench]");
const wide = matchMedia("(min-width: 1001px)");
const roomy = matchMedia("(min-width: 1880px)"); // tags and notes have their own column

if (bench) {
  const rows = () => [...bench.querySelectorAll("[data-row]")];
  const reader = () => bench.querySelector("[data-reader]");
  const announce = document.querySelector("[data-announce]");
  const asked = () => {
    const address = new URL(location.href);
    address.searchParams.delete("turn");
    return address.search;
  };
  let shown = asked();
  let asking = null;
  let coming = Promise.resolve();

  const rove = () => {
    const all = rows();
    const current = all.find((row) => row.hasAttribute("aria-current")) ?? all[0];
    for (const row of all) row.tabIndex = row === current ? 0 : -1;
    return current;
  };

  const unfold = () => {
    const noting = bench.querySelector("[data-noting]");
    if (noting && roomy.matches) noting.open = true;
  };
  roomy.addEventListener("change", unfold);
  unfold();

  // Request the page like a link, and replace only the reader: nothing else moves.
  const open = async (href, remember = true) => {
    asking?.abort();
    asking = new AbortController();
    const box = reader();
    const busy = setTimeout(() => box.setAttribute("aria-busy", "true"), 300);
    try {
      const answer = await fetch(href, { signal: asking.signal });
      if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-reader]");
      if (!fresh) throw new Error("no reader");
      const inReader = box.contains(document.activeElement);
      const held = inReader && ["data-next", "data-previous"].find((name) => document.activeElement.hasAttribute(name));
      box.replaceChildren(...fresh.childNodes);
      box.removeAttribute("aria-busy");
      box.scrollTop = 0;
      if (remember) history.pushState(null, "", href);
      shown = asked();
      const chat = new URL(href, location.href).searchParams.get("chat");
      for (const row of rows()) {
        if (row.dataset.row === chat) row.setAttribute("aria-current", "true");
        else row.removeAttribute("aria-current");
      }
      rove()?.scrollIntoView({ block: "nearest" });
      unfold();
      readerStart(box);
      formsStart(box);
      // If a turn or button of the reader had the focus, focus the same one in the new conversation.
      if (inReader) {
        const places = [held ? `[${held}]` : ".is-chosen [data-turn-link]", "[data-turn-link]"];
        places.map((place) => box.querySelector(place)).find(Boolean)?.focus();
      }
      const title = box.querySelector(".bench-title");
      announce.textContent = [...title?.children ?? []]
        .filter((part) => !part.matches(".bench-actions")).map((part) => part.textContent.trim()).join(" ");
    } catch (error) {
      if (error.name !== "AbortError") location.assign(href);
    } finally {
      clearTimeout(busy);
    }
  };

  const current = rove();
  if (current?.closest("[data-held]")) current.focus({ preventScroll: true }); // the other conversation is selected there
  bench.addEventListener("click", (event) => {
    const link = event.target.closest("[data-row], [data-next], [data-previous]");
    if (!link || link.closest("[data-held]") || !wide.matches || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    coming = open(link.href);
  });

  bench.querySelector("[data-rows]")?.addEventListener("keydown", (event) => {
    const all = rows();
    const now = all.indexOf(event.target.closest("[data-row]"));
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || now < 0 || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (!all[to]) return;
    all[to].focus();
    for (const row of all) row.tabIndex = row === all[to] ? 0 : -1;
  });

  // From the search field, the down arrow moves to the results.
  bench.querySelector("[data-line]")?.addEventListener("keydown", (event) => {
    const row = rows().find((one) => one.tabIndex === 0);
    if (event.key !== "ArrowDown" || !row) return;
    event.preventDefault();
    row.focus();
  });

  document.addEventListener("keydown", (event) => {
    if (!readerKeysMayAct(event)) return;
    const act = {
      "/": () => bench.querySelector("[data-line]").focus(),
      s: () => {
        const star = bench.querySelector("[data-star]");
        star?.focus(); // the new page starts there, so that its new state is announced
        star?.click();
      },
      t: () => {
        const noting = bench.querySelector("[data-noting]");
        if (!noting) return;
        noting.open = true;
        noting.querySelector("[data-tag]").focus();
      },
    }[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    coming.then(act); // for the conversation opened last, even if it is still loading
  });

  // A jump within the page, such as the skip link, is not another conversation.
  addEventListener("popstate", () => asked() !== shown && location.reload());

  // Target of the actions: the ticked rows, or the whole list.
  for (const form of bench.querySelectorAll("[data-select]")) {
    const status = form.querySelector("[data-selected]");
    const usual = status.textContent;
    form.addEventListener("change", ({ target }) => {
      if (target.name !== "chat") return;
      const n = form.querySelectorAll('[name="chat"]:checked').length;
      status.textContent = n ? `${n} ${n === 1 ? "chat is" : "chats are"} selected.` : usual;
    });
  }

  for (const button of bench.querySelectorAll("[data-drawer-close]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const drawer = button.closest("details");
      drawer.open = false;
      drawer.querySelector("summary").focus();
    });
  }

  for (const form of bench.querySelectorAll("[data-narrow]")) {
    if (form.elements.number) spreadStart(form);
    narrowStart(form);
  }

  // At most six columns: the others are disabled once six are selected.
  for (const form of bench.querySelectorAll("[data-columns]")) {
    const boxes = [...form.querySelectorAll("[type=checkbox]")];
    const limit = () => {
      const full = boxes.filter((box) => box.checked).length >= 6;
      for (const box of boxes) box.disabled = full && !box.checked;
    };
    form.addEventListener("change", limit);
    limit();
  }
}
