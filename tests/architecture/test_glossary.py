"""The glossary: each of our own terms has a standard term, stands once, and is used elsewhere."""

import re

from tests.architecture.source import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
USED_IN = ("chatbots/**/*.py", "evaluation/**/*.py", "webapp/**/*.py", "webapp/**/*.html")
PAGES = ("README.md", "docs/**/*.md")


def entries() -> dict[str, list[list[str]]]:
    """Return the cells of each entry, by its heading."""
    results: dict[str, list[list[str]]] = {}
    for part in GLOSSARY.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        rows = [line for line in lines if line.startswith("|")][2:]
        results[heading] = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return results


def plain(text: str) -> str:
    """Return a text in lower case, with names in code cut into their words."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.sub(r"[^a-z0-9]+", " ", apart.lower())


def used() -> str:
    """Return all that pages, documents and code say, without the glossary itself."""
    files = {file for pattern in (*USED_IN, *PAGES) for file in ROOT.glob(pattern)} - {GLOSSARY}
    return "\n".join(plain(file.read_text(encoding="utf-8")) for file in files)


def test_each_entry_gives_a_meaning_and_a_standard_term() -> None:
    for heading, rows in entries().items():
        assert len(rows) >= 5, heading
        for row in rows:
            assert len(row) == 3, row
            assert all(row), row
            assert row[1].endswith("."), row[0]


def test_each_term_stands_once() -> None:
    terms = [row[0] for rows in entries().values() for row in rows]
    assert len(terms) == len(set(terms))


def test_each_term_is_used_in_code_or_pages() -> None:
    said = used()
    unused = [row[0] for rows in entries().values() for row in rows if plain(row[0]) not in said]
    assert unused == []
