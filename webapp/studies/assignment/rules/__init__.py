"""Assignment rules: the choice of a participant's next bot or item.

To add a rule, add a file here with one `@register_rule` class; the admin's choice and the contract tests find it by
its name. A protocol, in `protocols/`, defines the task with the bot.
"""

from __future__ import annotations
