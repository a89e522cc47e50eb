"""Kinds of flags: reasons to look at a participant's work.

`base.flag_kinds` imports every file of this folder. A file holds one kind, or kinds that read the same data. Those
of ratings are here too.
"""

from __future__ import annotations
