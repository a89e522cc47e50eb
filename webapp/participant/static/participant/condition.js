// The panel of a chat's condition: open on desktops; on phones until the participant's first message; folded if the
// window is too low for the panel and the chat.

const panel = document.getElementById("condition");
const log = document.getElementById("log");

if (panel && matchMedia("(max-height: 499.98px)").matches) {
  panel.open = false;
} else if (panel && matchMedia("(min-width: 700px)").matches) {
  panel.open = true;
} else if (panel) {
  const begun = new MutationObserver(() => {
    if (!log.querySelector(".msg-you")) return;
    panel.open = false;
    begun.disconnect();
  });
  begun.observe(log, { childList: true, subtree: true });
}
