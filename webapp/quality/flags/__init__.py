"""Reasons to look at somebody's work, one file each; `base.flag_kinds` finds them."""
