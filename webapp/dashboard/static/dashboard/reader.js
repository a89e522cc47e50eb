// The reader: J and K go from turn to turn, arrows from conversation to conversation.
const list = document.querySelector("[data-turns]");
const keys = document.querySelector("[data-keys]");
const STORED = "confab-reader-keys";

if (list) {
  const turns = [...list.querySelectorAll("[data-turn]")];

  const choose = (turn, focus) => {
    for (const one of turns) {
      const chosen = one === turn;
      one.classList.toggle("is-chosen", chosen);
      const link = one.querySelector(".turn-text");
      if (chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    for (const box of document.querySelectorAll("[data-turn-values]")) {
      box.hidden = box.dataset.turnValues !== turn.dataset.turn;
    }
    const address = new URL(location.href);
    address.searchParams.set("turn", turn.dataset.turn);
    history.replaceState(null, "", address);
    if (focus) turn.querySelector(".turn-text").focus();
    turn.scrollIntoView({ block: "nearest" });
  };

  turns.forEach((turn) => turn.querySelector(".turn-text").addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    choose(turn, true);
  }));

  document.addEventListener("keydown", (event) => {
    if (!keys.checked || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = document.activeElement;
    if (at !== document.body && at?.id !== "main" && !list.contains(at)) return;
    const now = turns.findIndex((turn) => turn.classList.contains("is-chosen"));
    const step = { j: 1, k: -1 }[event.key.toLowerCase()];
    if (step && turns[now + step]) {
      event.preventDefault();
      choose(turns[now + step], true);
    }
    const way = { ArrowLeft: "[data-previous]", ArrowRight: "[data-next]" }[event.key];
    if (way) document.querySelector(way)?.click();
  });
}

if (keys) {
  try {
    keys.checked = localStorage.getItem(STORED) !== "off";
    keys.addEventListener("change", () => localStorage.setItem(STORED, keys.checked ? "on" : "off"));
  } catch {
    // Without storage the choice holds for this page.
  }
}
