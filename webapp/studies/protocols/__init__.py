"""Study protocols: the steps of a participant, and their tasks.

To add a protocol, add a file here with one `@register_protocol` class; the admin's choice, the participant pages and
the contract tests find it by its name. Those of one kind share a file: chats, single items, comparisons, labels. An
assignment rule, in `assignment/rules/`, chooses the participant's bots or items.
"""

from __future__ import annotations
