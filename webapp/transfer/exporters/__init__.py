"""Exported tables, one file each; `base.exporters` finds them."""
