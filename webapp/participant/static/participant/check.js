// Checks on the consent page that the chat will work in this browser: all of its scripts load, and it can exchange
// messages by a socket or by HTTP. A classic script in plain old syntax: it must run where modules do not.
(function () {
  "use strict";
  var me = document.currentScript;
  var isReported = false;

  document.documentElement.classList.add("scripted");

  function fail(isCertain) {
    if (window.confabParts) return;
    document.getElementById("unfit").hidden = false;
    if (isCertain) {
      ["continue", "start"].forEach(function (id) {
        var button = document.getElementById(id);
        if (button) button.disabled = true;
      });
    }
    if (isReported) return;
    isReported = true;
    var request = new XMLHttpRequest();
    request.open("POST", me.getAttribute("data-failed") + "?at=consent");
    request.send();
  }

  function check() {
    if (!("noModule" in me) || !(window.WebSocket || window.fetch) || !window.Promise) {
      fail(true);
      return;
    }
    var parts = document.createElement("script");
    parts.type = "module";
    parts.src = me.getAttribute("data-parts");
    parts.addEventListener("error", function () { fail(true); });
    // A slow network proves nothing, so the page warns but lets people continue.
    var timer = setTimeout(function () { fail(false); }, 8000);
    parts.addEventListener("load", function () {
      clearTimeout(timer);
      if (!window.confabParts) fail(true);
      else document.getElementById("unfit").hidden = true;
    });
    document.head.appendChild(parts);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", check);
  else check();
})();
