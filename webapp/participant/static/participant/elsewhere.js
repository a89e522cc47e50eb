// The link to another device: copied, or shared by the device's own dialog.

import { byId } from "./page.js";

const link = byId("link");
const copy = byId("copy");
if (link && copy) {
  const words = copy.querySelector("span");
  const before = words.textContent;
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    link.select();
    try {
      await navigator.clipboard.writeText(link.value);
      words.textContent = copy.dataset.copied;
      byId("copy-status").textContent = copy.dataset.copied;
      setTimeout(() => {
        words.textContent = before;
        byId("copy-status").textContent = "";
      }, 2500);
    } catch {
      // Not allowed here: select it for copying by keyboard.
    }
  });
}

const share = byId("share");
if (share && navigator.share) {
  share.hidden = false;
  share.addEventListener("click", async () => {
    try {
      await navigator.share({ title: document.title, url: link.value });
    } catch {
      // Sharing was cancelled.
    }
  });
}
byId("title")?.focus();
