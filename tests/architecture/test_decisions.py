"""Records of decisions: each has the same parts, and the code that it rules exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def test_records_are_numbered_without_gaps() -> None:
    assert [int(record.name.split("-")[0]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_its_parts_and_rules_code_that_exists(record: Path) -> None:
    text = record.read_text()
    for part in ("*Status:* ", "*Rules:* ", "**Context.** ", "**Decision.** ", "**Consequences.** "):
        assert text.count(part) == 1, f"{record.name} has no part {part!r}, or several"
    rules = text.split("*Rules:* ")[1].split("\n\n")[0]
    ruled = re.findall(r"`([^`]+)`", rules)
    assert ruled
    assert [path for path in ruled if not (ROOT / path).exists()] == []
    assert f"]({record.name})" in (record.parent / "index.md").read_text()
