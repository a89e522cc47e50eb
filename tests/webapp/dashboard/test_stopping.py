"""When to stop: one line on Overview, People and Leaderboard, the same in the API and in the command."""

import json
import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

import confab
from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.api.programs import Program
from webapp.core.rights import Right
from webapp.insights.live_progress import now_rounded
from webapp.insights.stopping import StoppingLine, stopping_line
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import OrderState, Study, Task

pytestmark = pytest.mark.django_db

PAGES = ("study", "study_people", "study_results")


def rate(study: Study, n_rounds: int, **quality: int) -> None:
    """Have every bot of the study rated once per round, around these values."""
    for k in range(n_rounds):
        for _ in quality:
            chat = make_conversation(study, n_exchanges=3)
            make_rating(chat, quality=min(7, quality[chat.bot.bot_id] + k % 3), fluency=4)


@pytest.fixture(scope="module")
def rated_of_file(rows_of_file: None) -> int:
    """Make a study of two bots with twelve raters each once for the file; return its primary key."""
    study = make_study("s", bots=["parrot", "eliza"], pay_each=1.5, fee_share=0.3, currency="GBP", max_per_bot=40)
    rate(study, 12, parrot=3, eliza=4)
    return study.pk


@pytest.fixture
def study(rated_of_file: int) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=rated_of_file)


def look(staff: Client, study: Study) -> OrderState:
    """Have a worker look at the order, as a page asks for it."""
    assert staff.get(reverse("dashboard:study_people", args=[study.key])).status_code == 200
    run_job(Job.objects.filter(kind="order").latest("pk"))
    return OrderState.objects.get(study=study)


def lines(staff: Client, study: Study, query: str = "") -> list[str]:
    texts = []
    for name in PAGES:
        page = BeautifulSoup(staff.get(reverse(f"dashboard:{name}", args=[study.key]) + query).content, "html.parser")
        part = page.select_one("[data-part=stopping]")
        assert part is not None, name
        texts.append(" ".join(part.get_text(" ").split()))
    return texts


def line_of(study: Study, **forecast: Any) -> StoppingLine:
    """Return the line of a stored forecast with these numbers."""
    stored: dict[str, Any] = {
        "n_pairs": 10,
        "n_decided": 7,
        "n_people": 60,
        "fewest_raters": 12,
        "pairs": [],
        "n_next": 2,
        "next_low": 20,
        "next_high": 40,
        "n_later": 1,
        "later_more_than": 400,
        "reason": None,
    }
    state = OrderState(study=study, found={"forecast": stored | forecast}, n_ratings=60, made_at=now_rounded())
    line = stopping_line(study, state, now=now_rounded())
    assert line is not None
    return line


def test_three_pages_the_api_and_the_command_say_the_same(
    staff: Client, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(staff, study) == ["", "", ""], "no worker has looked yet"
    look(staff, study)
    line = stopping_line(study, OrderState.objects.get(), now=now_rounded())
    assert line is not None
    assert line.lead == "0 of 1 pair is decided."
    assert "decide the last one" in line.rest
    assert "The plan has 56 people left." in line.rest
    shown = lines(staff, study)
    assert len(set(shown)) == 1
    assert shown[0].startswith(line.text)
    program = Program(Right.READ)
    by_api = [program.get(f"studies/s/{name}").json()["stopping"] for name in ("live", "overview", "leaderboard")]
    assert [answer["text"] for answer in by_api] == [line.text] * 3
    assert (by_api[0]["next_low"], by_api[0]["n_pairs"], by_api[0]["n_people"]) == (line.forecast["next_low"], 1, 24)
    assert by_api[0]["cost_low"] == (line.cost_low and pytest.approx(line.forecast["next_low"] * 1.5 * 1.3))
    call_command("list_studies", "--json")
    [listed] = json.loads(capsys.readouterr().out)
    assert listed["when_to_stop"] == line.text


def test_a_notebook_forecasts_the_same_from_the_exported_study(staff: Client, tmp_path: Path) -> None:
    study = make_study("t", bots=["parrot", "eliza", "generic"])
    rate(study, 12, parrot=3, eliza=4, generic=7)
    state = look(staff, study)
    call_command("export", "--study", "t", "--what", "package", "--output", str(tmp_path / "s.zip"), stdout=StringIO())
    read = confab.read(tmp_path / "s.zip")
    outlook = confab.when_to_stop(read, level=study_ratings(study).level)
    assert outlook.to_json() == state.found["forecast"]
    line = stopping_line(study, state, now=now_rounded())
    assert line is not None
    usual = re.sub(r" \([^)]*\)", "", line.text)  # without hours, which only the server knows
    assert outlook.sentence == usual
    summary = outlook.summary()
    assert summary.startswith(usual)
    assert all(pair["a"] in summary and f"{pair['low']:,}" in summary for pair in state.found["forecast"]["pairs"])
    assert 0 < len(outlook.forecast.pairs) < 3
    other = confab.when_to_stop(read, "fluency", smallest=3).forecast
    assert other.n_decided == other.n_pairs == 3, "all answers are alike, and so within three points"
    with pytest.raises(ValueError, match="beauty"):
        confab.when_to_stop(read, "beauty")


def test_the_line_is_of_the_usual_view_and_of_people_alone(staff: Client, study: Study) -> None:
    look(staff, study)
    assert all(lines(staff, study))
    assert lines(staff, study, "?synthetic=1") == ["", "", ""]
    results = reverse("dashboard:study_results", args=[study.key])
    for query in ("?by=fluency", "?without=fast", "?failed=1"):
        page = BeautifulSoup(staff.get(results + query).content, "html.parser")
        assert page.select_one("[data-part=stopping]").get_text(strip=True) == "", query  # type: ignore[union-attr]


def test_before_ten_raters_the_line_says_what_is_missing(staff: Client) -> None:
    study = make_study("few", bots=["parrot", "eliza"])
    rate(study, 9, parrot=3, eliza=4)
    look(staff, study)
    [text] = set(lines(staff, study))
    assert "once every bot has 10 raters; the fewest now are 9." in text


def test_a_study_that_no_longer_collects_has_no_line(staff: Client, study: Study) -> None:
    state = look(staff, study)
    Study.objects.filter(pk=study.pk).update(state=Study.State.ENDED)
    assert stopping_line(Study.objects.get(), state, now=now_rounded()) is None
    assert lines(staff, study) == ["", "", ""]


def test_words_for_what_decides_next_and_what_will_not() -> None:
    study = make_study("words", bots=["parrot", "eliza"], pay_each=1.5, fee_share=0.3, currency="GBP")
    assert line_of(study).text == (
        "7 of 10 pairs are decided. 20 to 40 more people (£39 to £78) should decide two more. "
        "Deciding all three takes more than 400."
    )
    far = line_of(study, n_next=1, next_low=150, next_high=900, n_later=2, later_more_than=1200)
    assert (
        far.rest
        == "150 more people will not decide one more; it may take up to 900. Deciding all three takes more than 1,200."
    )
    assert far.cost_low is None
    last = line_of(study, n_decided=9, n_next=1, next_low=400, next_high=None, n_later=0, later_more_than=None)
    assert last.rest == "400 more people will not decide the last one; it may take far more."
    enough = line_of(study, n_people=500, n_next=1, next_low=150, next_high=900, n_later=0, later_more_than=None)
    assert enough.rest.startswith("150 to 900 more people (")
    done = line_of(study, n_decided=10, n_next=0, next_low=None, next_high=None, n_later=0, later_more_than=None)
    assert (done.tone, done.lead) == ("good", "All 10 pairs are decided.")


@pytest.mark.parametrize(
    ("per_person_tasks", "n_recent", "words"),
    [(1, 2, "(£39 to £78)"), (1, 20, "(£39 to £78, 2 to 4 hours at this pace)"), (2, 20, "(£78 to £160, 4 to 8 hours")],
)
def test_pay_and_hours_follow_the_tasks_of_a_person_and_the_last_two_hours(
    study: Study, per_person_tasks: int, n_recent: int, words: str
) -> None:
    old = now_rounded() - timedelta(hours=3)
    kept = Task.objects.order_by("pk").values_list("pk", flat=True)[:n_recent]
    Task.objects.exclude(pk__in=list(kept)).update(ended_at=old)
    assert words.removesuffix(")").split(" to £160")[0] in line_of(study, n_people=24 // per_person_tasks).rest
