// The front page: the identifier's ticket, the try-it buttons, the live statistics.

import "./ticket.js";
import "./try.js";
import "./statistics.js";
