"""File formats of published dialogue corpora, one module per format.

A module is named after its format and has `read(path) -> Iterator[Dialogue]`. A new file here adds a format.
"""
