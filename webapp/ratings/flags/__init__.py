"""Kinds of flags: reasons to look at a participant's work.

`base.flag_kinds` imports every file of this folder. A file has one kind, or several kinds that read the same data.
Kinds about ratings are here, too.
"""

from __future__ import annotations
