// The phone preview next to the builder: shows any page, theme or language as last saved, and outlines the edited
// field. A new page loads behind the old one, to avoid flicker.

const panel = document.querySelector("[data-preview]");
const full = document.querySelector("[data-preview-full]");
const screen = panel.querySelector(".phone-screen");
const fields = JSON.parse(document.getElementById("preview-fields").textContent);
let address = new URL(panel.dataset.address, location.href);
let focused = address.searchParams.get("focus") ?? "";
let frame = screen.querySelector("iframe");
let coming = null;
let asked = 0;
let wanted = null; // a requested page that did not exist; it may exist after a save

const fullSize = panel.querySelector("[data-preview-size]");
const stepOf = (url) => url.pathname.split("/").at(-2);

function load(next, { still = false } = {}) {
  const isSame = next.pathname === address.pathname;
  address = next;
  fullSize.href = next.href;
  const shown = new URL(next);
  if (focused) shown.searchParams.set("focus", focused);
  else shown.searchParams.delete("focus");
  if (still) shown.searchParams.set("still", "1");
  coming?.remove();
  coming = frame.cloneNode();
  coming.removeAttribute("loading");
  coming.className = "coming";
  coming.setAttribute("aria-hidden", "true");
  coming.src = shown.href;
  const next_ = coming;
  next_.addEventListener("load", () => swap(next_, isSame && !focused), { once: true });
  screen.append(next_);
}

function swap(next, keepsPlace) {
  if (next !== coming) return;
  const top = frame.contentWindow?.scrollY ?? 0;
  if (keepsPlace) next.contentWindow.scrollTo(0, top);
  next.className = "";
  next.removeAttribute("aria-hidden");
  const wasInside = document.activeElement === frame;
  frame.remove();
  frame = next;
  if (wasInside) frame.focus();
  coming = null;
  watch();
  focusTell(); // another field may have been chosen while this page loaded
  wanted = address.pathname === frame.contentWindow.location.pathname ? null : address;
  inside();
}

// Messages before the page's script runs are lost; it has run once the page is loaded.
function focusTell() {
  if (focused) frame.contentWindow?.postMessage({ focus: focused }, location.origin);
}

// Navigation inside the phone updates its tabs.
function watch() {
  frame.addEventListener("load", () => {
    wanted = null;
    inside();
  });
}

// The displayed page can differ from the requested one: a study without questions has no page for them.
function inside() {
  const shown = new URL(frame.contentWindow.location.href);
  if (shown.pathname === address.pathname || !shown.pathname.includes("/preview/")) return;
  address = shown;
  fullSize.href = shown.href;
  tabsFollow();
}

// The server renders the tabs of the displayed step, because it knows the step's pages.
async function tabsFollow() {
  const page = new URL(location.href);
  page.searchParams.set("preview", stepOf(address));
  for (const name of ["outcome", "missed", "theme", "lang", "level"]) {
    const value = address.searchParams.get(name);
    if (value) page.searchParams.set(name, value);
    else page.searchParams.delete(name);
  }
  asked += 1;
  const mine = asked;
  const answer = await fetch(page, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const text = await answer.text();
  if (mine !== asked) return; // another request is pending
  const made = new DOMParser().parseFromString(text, "text/html");
  const tabs = made.querySelector("[data-preview-tabs]");
  if (!tabs) return;
  const old = panel.querySelector("[data-preview-tabs]");
  const had = old.contains(document.activeElement) ? document.activeElement.textContent : null;
  old.replaceWith(tabs);
  frame.title = made.querySelector("[data-preview] iframe").title;
  if (had !== null) [...tabs.querySelectorAll("a")].find((a) => a.textContent === had)?.focus();
}

panel.addEventListener("click", (event) => {
  const link = event.target.closest("[data-preview-tabs] a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  load(new URL(link.dataset.address, location.href));
  tabsFollow();
});

const look = panel.querySelector("[data-preview-look]");
look.addEventListener("submit", (event) => event.preventDefault());
look.addEventListener("change", () => {
  const next = new URL(address);
  for (const name of ["theme", "lang", "level"]) {
    const field = look.elements.namedItem(name);
    if (field) next.searchParams.set(name, field.value);
  }
  load(next, { still: true });
  tabsFollow();
});

function outline(name) {
  focused = name;
  panel.querySelector("[data-preview-dashed]").hidden = !name;
  frame.contentWindow?.postMessage({ focus: name }, location.origin);
}

// `data-preview-field` and `data-preview-step`, on a field or an ancestor, say what the field changes and where;
// otherwise its name does.
document.addEventListener("focusin", ({ target }) => {
  if (panel.contains(target) || !target.closest("main")) return;
  const name = target.closest("[data-preview-field]")?.dataset.previewField ?? target.name ?? "";
  const step = target.closest("[data-preview-step]")?.dataset.previewStep ?? fields[name];
  if (!step) return;
  outline(name);
  const next = new URL(address);
  next.pathname = next.pathname.replace(/[^/]+\/$/, `${step}/`);
  // Each outcome's codes and return links are shown on its own page.
  const outcome = /^(?:code|link)_(.+)$/.exec(name)?.[1];
  if (outcome) next.searchParams.set("outcome", outcome);
  else if (step !== stepOf(address)) {
    next.searchParams.delete("outcome");
    next.searchParams.delete("missed");
  }
  const level = levelOf(target);
  if (level) {
    next.searchParams.set("level", level);
    const choice = look.elements.namedItem("level");
    if (choice) choice.value = level;
  }
  if (next.href === address.href) return;
  load(next, { still: true });
  tabsFollow();
});

// A text chosen in the phone opens its field: here, or on its own page of the builder. Names that are no settings are
// keys of questions.
const homes = JSON.parse(document.getElementById("preview-homes").textContent);
const EDIT = "#edit-";
addEventListener("message", ({ origin, source, data }) => {
  if (origin !== location.origin || source !== frame.contentWindow || !Array.isArray(data?.edit)) return;
  if (fieldOpen(data.edit)) return;
  const name = data.edit.find((one) => one in homes);
  location.assign(name ? `../${homes[name]}/#id_${name}` : `../questions/${EDIT}${data.edit[0]}`);
});
if (location.hash.startsWith(EDIT)) fieldOpen([location.hash.slice(EDIT.length)]);

function fieldOpen(names) {
  const selectors = names.map(CSS.escape).flatMap((name) => [
    `#build-form [name="${name}"]`,
    `[data-preview-field="${name}"] :is(input:not([type="hidden"]), textarea)`,
  ]);
  const field = document.querySelector(selectors.join());
  if (!field) return false;
  if (full.open) full.close();
  for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  field.focus();
  return true;
}

// For an edited level of a factor, show its texts: identified by the numbers of the factor and the card.
function levelOf(target) {
  const card = target.closest('[data-list^="levels"] > [data-card]');
  if (!card) return "";
  const cards = [...card.parentElement.querySelectorAll(":scope > [data-card]")];
  return `${card.parentElement.dataset.list.replace("levels", "")}.${cards.indexOf(card) + 1}`;
}

// The builder reports a save. The tabs may be older than the page.
document.addEventListener("build:saved", () => {
  load(wanted ?? address, { still: true });
  const tab = [...panel.querySelectorAll("[data-preview-tabs] [aria-current]")].at(-1);
  if (!tab || stepOf(new URL(tab.dataset.address, location.href)) !== stepOf(address)) tabsFollow();
});

// On phones: full screen until closed.
const opener = document.querySelector("[data-preview-open]");
const place = document.createComment("preview");
opener.addEventListener("click", (event) => {
  event.preventDefault();
  panel.before(place);
  full.append(panel);
  full.showModal();
});
full.addEventListener("close", () => {
  place.replaceWith(panel);
  opener.focus();
});
panel.querySelector("[data-preview-close]").addEventListener("click", () => full.close());

watch();
frame.addEventListener("load", focusTell, { once: true });
