// Specialist terms: a dotted underline that opens a one-sentence explanation.
//
// The first occurrence of a term in a section becomes a button with a popover. Without scripts, or in a browser
// without popovers, the text stays as it is.

const TERMS = {
  "always-valid": "An always-valid test keeps its error rate however often you look at the results.",
  "Bradley–Terry": "The Bradley–Terry model gives each bot a strength that predicts how often it is preferred to another.",
  "Holm": "Holm’s correction raises p values because many pairs are tested, so that any false finding is as rare as the level says.",
  "instance": "An instance is a reply or pair of replies that was rated by participants.",
  "jackknife": "The jackknife leaves out one unit at a time and takes the interval from how much the result changes.",
  "Krippendorff": "Krippendorff’s alpha measures how far raters agree beyond chance: 1 is full agreement, 0 is chance.",
  "partial η²": "Partial η² is the share of variance that an effect explains, of the variance that other effects leave.",
  "PPI++": "PPI++ (prediction-powered inference) combines many judge scores with a few ratings without adopting the judge’s bias.",
  "preset": "A preset is a fixed choice of metrics and regression for fitting the hybrid metric.",
  "Q²": "Q² is 1 for perfect predictions of bots left out of the fit and 0 for predicting the mean of the other bots.",
  "Satterthwaite": "Satterthwaite’s degrees of freedom keep tests valid when few raters or bots carry the evidence.",
};
const WITHIN = { instance: "#judges", preset: ".prediction-grid" };
const NOT_WITHIN = "a, button, summary, label, h1, h2, h3, th, code, pre, svg, script, style, textarea, select, .term-text";
const WORD = /[\p{L}\p{N}]/u;

let made = 0;

function explanationOf(term) {
  const box = document.createElement("span");
  box.className = "term-text";
  box.id = `term-${(made += 1)}`;
  box.popover = "auto";
  box.textContent = TERMS[term];
  return box;
}

function positionOf(text, term) {
  for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + 1)) {
    const [before, after] = [text[at - 1] ?? " ", text[at + term.length] ?? " "];
    if (!WORD.test(before) && !WORD.test(after)) return at;
  }
  return -1;
}

function explain(node, term, at) {
  const rest = node.splitText(at);
  rest.data = rest.data.slice(term.length);
  const button = document.createElement("button");
  const box = explanationOf(term);
  button.type = "button";
  button.className = "term";
  button.textContent = term;
  button.popoverTargetElement = box;
  box.addEventListener("beforetoggle", () => {
    const place = button.getBoundingClientRect();
    box.style.top = `${place.bottom + 6}px`;
    box.style.left = `${Math.max(8, Math.min(place.left, document.documentElement.clientWidth - 328))}px`;
  });
  rest.before(button, box);
  return rest;
}

function explainIn(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (let node of texts) {
    const parent = node.parentElement;
    if (!parent || parent.closest(NOT_WITHIN)) continue;
    const section = parent.closest("section, details, article, main") ?? root;
    const isNew = (term) => ![...section.querySelectorAll(".term")].some((button) => button.textContent === term);
    const isHere = (term) => !WITHIN[term] || parent.closest(WITHIN[term]);
    for (let next = true; next; ) {
      const { data } = node;
      [next] = Object.keys(TERMS)
        .map((term) => ({ term, at: data.includes(term) && isHere(term) && isNew(term) ? positionOf(data, term) : -1 }))
        .filter(({ at }) => at >= 0)
        .sort((a, b) => a.at - b.at);
      if (next) node = explain(node, next.term, next.at);
    }
  }
}

export function termsStart() {
  const main = document.querySelector("main");
  if (!main || !("popover" in HTMLElement.prototype)) return;
  explainIn(main);
  // Parts of live pages are replaced.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        if (node.nodeType === Node.ELEMENT_NODE && !node.matches(".term, .term-text") && !node.closest(NOT_WITHIN)) explainIn(node);
      }
    }
  }).observe(main, { childList: true, subtree: true });
}
