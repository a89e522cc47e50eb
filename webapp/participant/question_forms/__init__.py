"""Question forms: questions about one rated thing, and their answers.

To add a form, add a class with `@register_sheet` in a file here; a protocol names it in its `page`, with the template
partial that renders it.
"""

from __future__ import annotations
