"""docs/guide/reading.md says all that a search can say, and its searches can be read."""

import re

import pytest

from tests.builders import make_conversation, make_rating, make_study
from tests.documents import ROOT, blocks_tested
from webapp.ratings.selectors import study_dimensions
from webapp.search.fields import COMPUTED, COUNTS, Numbers, Unreadable
from webapp.search.query import CHOICES, ORDERS, SearchQuery, parse_query
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db

TABLES = {"field": (*CHOICES, *COUNTS, *COMPUTED), "order": ORDERS}
"""By the word above the first column: what its rows are about. Several tables may have the same one."""


def rows() -> dict[str, dict[str, str]]:
    """Return the rows of the page's tables by the word above the first column: first cell to second cell."""
    results: dict[str, dict[str, str]] = {}
    above = ""
    for line in (ROOT / "docs/guide/reading.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            above = ""
        elif not above:
            above = cells[0]
        elif code := re.fullmatch(r"`(\w+)`", cells[0]):
            results.setdefault(above, {})[code[1]] = cells[1]
    return results


def read(study: Study, line: str) -> SearchQuery:
    return parse_query(line, Numbers(study_dimensions(study)), bots=study.bots, study=study)


@pytest.mark.parametrize("above", TABLES)
def test_every_field_has_its_row_and_no_other(above: str) -> None:
    written = set(rows()[above])
    assert set(TABLES[above]) - written == set(), "these need a row in docs/guide/reading.md"
    assert written - set(TABLES[above]) == set(), "these rows are about no field"


@pytest.mark.parametrize("field", ["state", "source", "is"])
def test_a_field_of_few_values_names_them_all(field: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(make_study("s"), f"{field}:xyzzy")
    known = refused.value.reason.rpartition(": ")[2].rstrip(".").split(", ")
    written = re.findall(r"`(\w+)`", rows()["field"][field])
    assert set(written) == set(known)


def test_every_search_shown_can_be_read() -> None:
    study = make_study("s", bots=["eliza", "retrieval"])
    make_rating(make_conversation(study, n_exchanges=3))
    shown = blocks_tested("tests/webapp/search/test_documented.py::test_every_search_shown_can_be_read")
    lines = [re.split(r"\s{2,}", line)[0] for block in shown for line in block.text.splitlines()]
    assert len(lines) > 5
    for line in lines:
        read(study, line)
