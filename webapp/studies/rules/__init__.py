"""One file per assignment rule: which bot or item somebody is given next.

A rule is added by a file here with one `@register_rule` class; the admin's choice and the contract tests
find it by its name. What is done with the bot is said by a protocol, in `protocols/`.
"""

from __future__ import annotations
