// Watches the page of a chat until its script works. A classic script in plain old syntax: it must run where modules do
// not. Where the script fails or stays away for 8 s, the page says so and shows its plain links.
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

  root.classList.add("scripted");
  // A module that is missing or that this browser cannot read.
  addEventListener("error", function (event) {
    if (event.target && event.target.tagName === "SCRIPT") stuck();
  }, true);
  setTimeout(stuck, 8000);
})();
