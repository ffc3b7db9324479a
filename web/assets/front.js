// The front page: the identifier's ticket, the try-it buttons, the live statistics.

import "./try.js";
import "./statistics.js";

if (document.querySelector("[data-ticket]")) await import("./ticket.js");
