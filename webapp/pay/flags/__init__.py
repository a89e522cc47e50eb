"""Reasons to check a visit before it is paid, one file each.

`base.flag_kinds` finds them.
"""
