"""The participant's pages as researchers see them while they build a study; nothing of it is stored.

`stage` makes somebody who has come to a step, `samples` what they chat about and judge, `page` shows the real
page of that step, and `views` takes all of it back.
"""

from __future__ import annotations
