// Codes by outcome: shown if the platform needs them; Prolific's own codes are filled in.
import { announce } from "./announce.js";

export function codesStart() {
  const ends = document.querySelector("[data-ends]");
  const isAsked = (input) => ["prolific", "panel"].includes(input.value);
  ends?.closest("form").addEventListener("change", ({ target }) => {
    if (target.name === "platform") ends.open = isAsked(target);
  });
  const bar = document.querySelector("[data-fetch-codes]");
  if (!bar) return;
  bar.hidden = false;
  const id = bar.querySelector("input");
  const button = bar.querySelector("button");
  const told = bar.querySelector("[data-told]");

  const say = (text, isBad) => {
    told.textContent = text;
    told.className = isBad ? "field-error" : "hint";
    announce(text);
  };

  button.addEventListener("click", async () => {
    if (!id.value.trim()) return id.focus();
    button.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(bar.dataset.fetchCodes, {
        method: "POST",
        headers: { "X-CSRFToken": bar.dataset.token },
        body: new URLSearchParams({ prolific_study: id.value.trim() }),
      });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      const names = Object.keys(found.codes);
      for (const name of names) {
        const input = document.querySelector(`#id_${CSS.escape(name)}`);
        if (!input) continue;
        input.value = found.codes[name];
        input.dispatchEvent(new Event("change", { bubbles: true }));
      }
      const others = found.others.map((one) => `${one.code} (${one.kind})`).join(", ");
      say(bar.dataset.found.replace("{n}", names.length) + (others ? ` ${bar.dataset.others} ${others}` : ""), false);
    } catch (error) {
      say(error.message, true);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}
