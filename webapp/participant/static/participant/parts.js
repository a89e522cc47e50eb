// Everything that a chat needs, loaded on the consent page, so that loading and syntax errors appear there.

import "./aside.js";
import "./composer.js";
import "./delivery.js";
import "./log.js";
import "./marks.js";
import "./outbox.js";
import "./report_links.js";
import "./socket.js";
import "./time.js";
import "./typing.js";

window.confabParts = true;
