"""Work that was under way when a database of an earlier release was upgraded goes on, or ends clearly."""

from pathlib import Path

import pytest

from tests.upgrades.conftest import RELEASES, told_by


@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.name)
def test_work_that_is_half_done_goes_on_after_an_upgrade_or_ends_clearly(
    kept: Path, empty_database: dict[str, str]
) -> None:
    found = told_by("tests.upgrades.half_done", kept, env=empty_database)
    ended, names = found["ended"], found["names"]
    assert ended[f"selfplay {names['selfplay']}"] == ["done", 4, 4, ""]
    assert found["same"], "what is there was kept, and what was missing is what it would have been"
    assert found["texts"] == 16
    assert ended[f"selfplay {names['stopping']}"][0] == "cancelled"
    assert ended[f"metrics {names['metrics']}"] == ["done", 12, 12, ""]
    assert found["results"] == names["results"]
    assert ended[f"hybrid {names['hybrid']}"][0] == "done"
    assert {state for state, *_ in ended.values()} == {"done", "cancelled"}, ended
