// Printing opens the tables, except those that would fill many pages, and folds them again.
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open]):not(.is-long)")) {
    part.open = true;
    opened.push(part);
  }
});
addEventListener("afterprint", () => {
  while (opened.length) opened.pop().open = false;
});
