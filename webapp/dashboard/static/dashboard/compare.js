// The leaderboard: "Compare selected" appears once two bots are selected; a third replaces the first.
const board = document.querySelector("[data-board]");
const button = board?.querySelector(".board-tick");
if (button) {
  const ticked = [...board.querySelectorAll('input[name="against"]:checked')];
  button.hidden = ticked.length < 2;
  board.addEventListener("change", ({ target: box }) => {
    if (ticked.includes(box)) ticked.splice(ticked.indexOf(box), 1);
    if (box.checked) ticked.push(box);
    while (ticked.length > 2) ticked.shift().checked = false;
    button.hidden = ticked.length < 2;
  });
}
// Move the focus to the two bots, so that they are read next.
if (location.hash === "#against") document.getElementById("against")?.focus();
