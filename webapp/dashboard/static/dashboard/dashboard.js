// Every page of the dashboard: plots that tell their values, tables to sort and copy, forms, progress.
import { plotsStart } from "./plots.js";
import { tablesStart } from "./tables.js";
import { liveStart } from "./live.js";
import { formsStart } from "./forms.js";
import { tourStart } from "./tour.js";

plotsStart();
tablesStart();
formsStart();
liveStart();
tourStart();

// The menu of phones closes on Escape and gives the focus back to its opener.
for (const menu of document.querySelectorAll("[data-menu]")) {
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

// The open tab and the open page under it are in view on phones.
for (const open of document.querySelectorAll(".tabs [aria-current], .subnav [aria-current]")) {
  open.scrollIntoView({ block: "nearest", inline: "center" });
}
