"""Data packages: all that a study holds in one zip, written and read back.

The zip follows Data Package, version 2 (https://datapackage.org): CSV files with a `datapackage.json` that says what
every column is. `contents` names its files in their order, `archive` packs them, `reading` takes them in again.
"""
