// Used on every page of the dashboard: values of plots, sortable and copyable tables, forms, progress.
import { plotsStart } from "./plots.js";
import { tablesStart } from "./tables.js";
import { liveStart } from "./live.js";
import { focusStart } from "./focus.js";
import { formsStart } from "./forms.js";
import { menusStart } from "./menus.js";
import { foldsStart } from "./folds.js";
import { termsStart } from "./terms.js";
import { tourStart } from "./tour.js";

plotsStart();
tablesStart();
formsStart();
liveStart();
foldsStart();
menusStart();
tourStart();
termsStart();
focusStart();

// On phones, scroll the open tab and page into view.
for (const open of document.querySelectorAll(".tabs [aria-current]")) {
  const nav = open.closest("nav");
  nav.scrollLeft = open.offsetLeft - (nav.clientWidth - open.offsetWidth) / 2;
}
