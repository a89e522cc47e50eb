"""Steps of a participant: a class for each page.

A study's protocol names its steps in order (`webapp/studies/protocols/`). To add a step, subclass `TaskStep` or
`ConversationStep` of `base.py` in a file here, decorate it with `@register_step`, and write its template. Its address
is made from its name.
"""

from __future__ import annotations
