// Last page: copy the code, and return automatically if the study does so.

import { byId, fill, formSend, keptClear } from "./page.js";

keptClear(); // clear typed text from the browser once it is saved

byId("title").focus();

// A page that frames the study learns the outcome. Each message names one allowed origin, so no other page can read it.
const host = byId("host");
if (host && window.parent !== window) {
  const message = JSON.parse(byId("host-message").textContent);
  for (const origin of host.dataset.origins.split(" ")) window.parent.postMessage(message, origin);
}

const copy = byId("copy");
if (copy) {
  const words = copy.querySelector("span");
  const before = words.textContent;
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const code = byId("code");
    try {
      await navigator.clipboard.writeText(code.textContent.trim());
      words.textContent = copy.dataset.copied;
      byId("copy-status").textContent = copy.dataset.copied;
      setTimeout(() => {
        words.textContent = before;
        byId("copy-status").textContent = "";
      }, 2500);
    } catch {
      // Not allowed here (no TLS, or a frame): select it for copying by keyboard.
      getSelection().selectAllChildren(code);
    }
  });
}

const back = byId("return");
const auto = byId("auto");
if (auto && back) {
  const words = auto.querySelector("span");
  let left = Number(back.dataset.autoS);
  const tick = () => {
    words.textContent = fill(words.dataset.template, { n: left });
    if (left <= 0) {
      clearInterval(timer);
      if (back.tagName === "FORM") formSend(back);
      else location.assign(back.href);
    }
    left -= 1;
  };
  const timer = setInterval(tick, 1000);
  auto.hidden = false;
  tick();
  byId("stay").addEventListener("click", () => {
    clearInterval(timer);
    auto.hidden = true;
  });
}
