"""Reasons to look at a visit before it is paid, one file each; `base.flag_kinds` finds them."""
