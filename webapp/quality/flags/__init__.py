"""Reasons to look at a participant's work, one file each; `base.flag_kinds` finds them."""
