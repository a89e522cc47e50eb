"""One file per study protocol: through which steps a person is led, and what a task of theirs holds.

A protocol is added by a file here with one `@register_protocol` class; the admin's choice, the
participant pages and the contract tests find it by its name. Which bot or item somebody gets is said by
an assignment rule, in `rules/`.
"""

from __future__ import annotations
