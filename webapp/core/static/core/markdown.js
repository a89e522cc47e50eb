// Replies in Markdown: rendered without flicker, with a button to copy code.

const drawn = new WeakMap(); // node -> its HTML as it came

// Show the HTML of a reply or of its first blocks. Only new blocks are added.
export function htmlShow(node, html) {
  const before = node.hasChildNodes() ? drawn.get(node) : undefined;
  node.classList.add("markdown");
  if (before && html.startsWith(before)) node.insertAdjacentHTML("beforeend", html.slice(before.length));
  else node.innerHTML = html;
  drawn.set(node, html);
  copyButtonsAdd(node);
}

// The words of a reply's HTML, to be read aloud.
export const htmlWords = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

async function copy(button, code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Not allowed here (no TLS, or a frame): select the text for copying by keyboard.
    getSelection().selectAllChildren(code);
    return;
  }
  const before = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => {
    button.textContent = before;
  }, 2500);
}

export function copyButtonsAdd(root) {
  for (const block of root.querySelectorAll(".code-block:not(:has(button))")) {
    const button = document.getElementById("tpl-copy")?.content.firstElementChild.cloneNode(true);
    if (!button) return;
    button.addEventListener("click", () => copy(button, block.querySelector("code")));
    block.append(button);
  }
}

copyButtonsAdd(document);
