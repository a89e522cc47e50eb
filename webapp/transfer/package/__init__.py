"""Data packages: everything a study holds in one zip, exported and imported.

The zip follows Data Package, version 2 (https://datapackage.org): CSV files with a `datapackage.json` that
describes every column. `contents` lists its files in their order, `tables` packs them, `import_package` imports
them.
"""
