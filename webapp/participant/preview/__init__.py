"""Preview of the participant's pages for researchers who build a study; nothing is stored.

`stage` creates a participant at a step, `samples` their conversations and items, `page` renders the real page
of that step, and `views` rolls everything back.
"""

from __future__ import annotations
