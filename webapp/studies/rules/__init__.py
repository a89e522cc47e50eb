"""One file per assignment rule: the choice of the bot or item that a participant is given next.

To add a rule, add a file here with one `@register_rule` class; the admin's choice and the contract tests find it by
its name. A protocol, in `protocols/`, defines the task with the bot.
"""

from __future__ import annotations
