"""Exported tables, one file per kind; `base.exporters` imports them."""
