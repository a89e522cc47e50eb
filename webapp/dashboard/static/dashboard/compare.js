// The leaderboard: the second tick sets two bots against each other; a third takes the place of the one ticked first.
const board = document.querySelector("[data-board]");
if (board) {
  const boxes = [...board.querySelectorAll('input[name="against"]')];
  const ticked = boxes.filter((box) => box.checked);
  for (const box of boxes) {
    box.addEventListener("change", () => {
      const at = ticked.indexOf(box);
      if (at >= 0) ticked.splice(at, 1);
      if (box.checked) ticked.push(box);
      while (ticked.length > 2) ticked.shift().checked = false;
      if (box.checked && ticked.length === 2) board.requestSubmit();
    });
  }
}
// The browser goes to the two bots, and so does the focus, so that they are what is read next.
if (location.hash === "#against") document.getElementById("against")?.focus();
