// Watches a chat page until its script works. A classic script in old syntax: it must run where modules do not. If the
// script fails or does not load within 8 s, the page says so and shows plain links. Messages sent until then wait in
// their box for the script.
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
  // A module that is missing or that this browser cannot parse.
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
