// The leaderboard: "Compare selected" appears after two ticks; a third takes the place of the one ticked first.
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
// The browser goes to the two bots, and so does the focus, so that they are what is read next.
if (location.hash === "#against") document.getElementById("against")?.focus();
