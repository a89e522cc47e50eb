// Everything that an arena needs, like `parts.js` for a chat.

import "./aside.js";
import "./composer.js";
import "./delivery.js";
import "./outbox.js";
import "./picks.js";
import "./report_links.js";
import "./rounds.js";
import "./socket.js";
import "./time.js";
import "./typing.js";

window.confabParts = true;
