// The trace of a reply: reasoning and tool calls, in a box above its text that a person opens.

const clone = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

function stepNode({ kind, name, arguments: given, text, failed }) {
  const node = clone(`tpl-trace-${kind}`);
  node.querySelector(".trace-name").textContent = name;
  node.querySelector(".trace-arguments").textContent = given;
  node.querySelector(".trace-text").textContent = text ?? "";
  node.querySelector(".trace-failed").hidden = !failed;
  return node;
}

// Show the steps so far before the bubble of a message; what the person has opened stays open.
export function traceShow(message, steps) {
  if (!steps?.length) return;
  let box = message.querySelector(".trace");
  if (!box) {
    box = clone("tpl-trace");
    message.querySelector(".bubble").before(box);
  }
  box.querySelector("ol").replaceChildren(...steps.filter(Boolean).map(stepNode));
}
