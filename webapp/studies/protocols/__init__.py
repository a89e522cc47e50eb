"""One file per study protocol: the steps of a participant, and the content of their tasks.

To add a protocol, add a file here with one `@register_protocol` class; the admin's choice, the participant pages
and the contract tests find it by its name. An assignment rule, in `rules/`, chooses the participant's bot or item.
"""

from __future__ import annotations
