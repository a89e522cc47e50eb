"""`CITATION.cff` has what the format asks for, and says the same as the package."""

import tomllib

import yaml

from chatbots.installation import VERSION
from tests.architecture.source import ROOT

PERSON = {"family-names", "given-names"}


def test_the_citation_file_is_whole_and_of_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What the schema of 1.2.0 requires, of the file and of each reference.
    assert found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(found)
    assert found["type"] in ("software", "dataset")
    for reference in found["references"]:
        assert {"type", "title", "authors"} <= set(reference)
    for author in [*found["authors"], *found["references"][0]["authors"]]:
        assert set(author) in (PERSON, {"name"})
    assert str(found["version"]) == VERSION
    assert found["license"] == project["license"]
    assert found["title"].lower() == project["name"]
