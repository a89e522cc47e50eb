// The trace of a reply: reasoning and tool calls in a collapsible box above its text.

const clone = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

function stepNode({ kind, name, arguments: given, text, failed }) {
  const node = clone(`tpl-trace-${kind}`);
  node.querySelector(".trace-name").textContent = name;
  node.querySelector(".trace-arguments").textContent = given;
  node.querySelector(".trace-text").textContent = text ?? "";
  node.querySelector(".trace-failed").hidden = !failed;
  return node;
}

// Show the steps so far above a message's bubble; boxes that were opened stay open.
export function traceShow(message, steps) {
  if (!steps?.length) return;
  let box = message.querySelector(".trace");
  if (!box) {
    box = clone("tpl-trace");
    message.querySelector(".bubble").before(box);
  }
  box.querySelector("ol").replaceChildren(...steps.filter(Boolean).map(stepNode));
}
