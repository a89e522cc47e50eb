// Printing opens the tables, except those that would fill many pages, and folds them again.
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll(".report details:not([open]):not(.is-long)")) {
    part.open = true;
    opened.push(part);
  }
});
addEventListener("afterprint", () => {
  while (opened.length) opened.pop().open = false;
});

// The link before the button contains the table in LaTeX or Markdown; without a clipboard only the link is shown.
function takesStart(root) {
  for (const button of navigator.clipboard ? root.querySelectorAll("[data-take]") : []) {
    button.hidden = false;
    button.addEventListener("click", () => take(button));
  }
}

async function take(button) {
  const coded = button.previousElementSibling.href.split(",", 2)[1];
  const bytes = Uint8Array.from(atob(coded), (letter) => letter.codePointAt(0));
  const box = document.querySelector("[data-announce]");
  try {
    await navigator.clipboard.writeText(new TextDecoder().decode(bytes));
  } catch {
    if (box) box.textContent = "The browser did not let this page copy. Download the file beside it.";
    return;
  }
  if (box) box.textContent = button.dataset.take;
  button.classList.add("is-taken");
  setTimeout(() => button.classList.remove("is-taken"), 2000);
}

takesStart(document);
document.addEventListener("loaded", (event) => takesStart(event.target)); // of a folded section
