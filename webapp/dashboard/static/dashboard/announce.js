// One polite live region for the whole page.
export function announce(text) {
  const box = document.querySelector("[data-announce]");
  if (box) box.textContent = text;
}
