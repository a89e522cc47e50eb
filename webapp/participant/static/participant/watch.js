// Watches the page of a chat until its script works. A classic script in plain old syntax: it must run where modules do
// not. Where the script fails or stays away for 8 s, the page says so and shows its plain links. What is sent until then
// waits in its box for the script.
(function () {
  "use strict";
  var root = document.documentElement;
  var address = document.currentScript.getAttribute("data-failed");
  var isCounted = false;

  function stuck() {
    if (root.classList.contains("started")) return;
    root.classList.add("stuck");
    if (isCounted) return;
    isCounted = true;
    var request = new XMLHttpRequest();
    request.open("POST", address + "?at=chat");
    request.send();
  }

  function sendLater(event) {
    if (root.classList.contains("started")) return;
    event.preventDefault();
    root.setAttribute("data-sends", "");
  }

  root.classList.add("scripted");
  // A module that is missing or that this browser cannot read.
  addEventListener("error", function (event) {
    if (event.target && event.target.tagName === "SCRIPT") stuck();
  }, true);
  addEventListener("submit", function (event) {
    if (event.target.id === "composer") sendLater(event);
  });
  addEventListener("keydown", function (event) {
    if (event.target.id !== "text" || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (!matchMedia("(hover: none) and (pointer: coarse)").matches) sendLater(event);
  });
  setTimeout(stuck, 8000);
})();
