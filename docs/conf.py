"""Sphinx configuration of the documentation site (`make site`): it needs no network and no external files."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chatbots.installation import VERSION

project = "Confab"
author = "Confab contributors"
copyright = "Confab contributors, MIT licence"
release = VERSION

extensions = ["myst_parser"]
# Links to headings, as the forge's own view of these files has them.
myst_heading_anchors = 3
exclude_patterns = ["README.md"]

html_theme = "furo"
html_title = f"Confab {VERSION}"
html_favicon = "../webapp/core/static/core/favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
