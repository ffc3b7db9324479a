// What every page does once scripts run: shows what needs them, and makes its code useful.

import { dress } from "./code.js";

for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;
for (const element of document.querySelectorAll("[data-no-script]")) element.hidden = true;
dress(document);
