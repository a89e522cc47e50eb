"""`CITATION.cff` has what the format asks for, and says the same as the package."""

import tomllib

import yaml

from chatbots.installation import VERSION
from tests.architecture.source import ROOT

PERSON = {"family-names", "given-names"}


def test_the_citation_file_is_whole_and_of_this_version() -> None:
    result = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What the schema of 1.2.0 requires, of the file and of each reference.
    assert result["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(result)
    assert result["type"] in ("software", "dataset")
    for reference in result["references"]:
        assert {"type", "title", "authors"} <= set(reference)
    for author in [*result["authors"], *result["references"][0]["authors"]]:
        assert set(author) in (PERSON, {"name"})
    assert str(result["version"]) == VERSION
    assert result["license"] == project["license"]
    assert result["title"].lower() == project["name"]
