// Judging: everything works without this; with it numbers choose by their keys.

import { likertWire } from "./likert.js";
import { byId } from "./page.js";

likertWire(byId("rating"));
if (!byId("summary")) byId("title").focus();
