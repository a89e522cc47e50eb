"""One file per sheet: a way to ask the questions about one thing that is judged, and to read the answers.

A sheet is added by a file here with one `@register_sheet` class; a protocol names it in its `page`. How the
sheet looks is said by the template partial that the protocol names beside it.
"""

from __future__ import annotations
