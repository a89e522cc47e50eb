"""One file per sheet: a form of questions about one thing that is judged, which also reads the answers.

To add a sheet, add a file here with one `@register_sheet` class; a protocol names it in its `page`, together
with the template partial that renders it.
"""

from __future__ import annotations
