"""Exported tables, a file for those of one kind; `base.exporters` finds them."""
