"""The leaderboard: ranks, bars, two bots compared, conversations drawn, bad addresses, and its pictures."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.dashboard.analysis.test_one_result import text_of
from webapp.bots.models import BotVersion
from webapp.conversations.models import Turn
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.selectors import study_ratings
from webapp.results import cache
from webapp.results.bot_means import bot_summary
from webapp.results.cache import AnalysisKey, data_of
from webapp.results.compute import PARTS
from webapp.search.pagination import conversations_of_study
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import import_conversations

LEVELS = {"alpha": 5.4, "beta": 5.3, "gamma": 3.9, "delta": 2.4}


def study_of(path: Path, levels: dict[str, float], key: str = "c", n: int = 15) -> Study:
    """Make a study in which every rater talks to every bot, on two questions of which the second says nothing."""
    rng = np.random.default_rng(4)
    lines = [
        json.dumps(
            {
                "dialogue_id": f"{bot}-{rater}",
                "bot": bot,
                "source": "x",
                "turns": [
                    {"speaker": speaker, "text": f"{words} of {bot}"}
                    for words in ("one", "two", "three")
                    for speaker in ("human", "bot")
                ],
                "ratings": [
                    {
                        "rater": f"w{rater}",
                        "quality": int(np.clip(round(level + rng.normal(0, 0.8)), 1, 7)),
                        "fluency": 2 + (rater + number) % 5,
                    }
                ],
            }
        )
        for number, (bot, level) in enumerate(levels.items())
        for rater in range(n)
    ]
    (path / f"{key}.jsonl").write_text("\n".join(lines))
    import_conversations(path / f"{key}.jsonl", study_key=key, scale=(1, 7))
    return Study.objects.get(key=key)


@pytest.fixture(scope="module")
def four_bots(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make a study of four bots, the first two alike; return its primary key."""
    return study_of(tmp_path_factory.mktemp("four"), LEVELS).pk


@pytest.fixture
def compared(four_bots: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=four_bots)


def address(study: Study, query: str = "") -> str:
    return reverse("dashboard:study_results", args=[study.key]) + query


def test_the_leaderboard_says_what_the_tests_leave_open(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared))
    rows = page.context["board"].rows
    assert [row.ranks for row in rows] == ["1–2", "1–2", "3", "4"]
    assert {row.bot.bot_id: row.close for row in rows} == {"alpha": "beta", "beta": "alpha", "gamma": "", "delta": ""}
    text = "Clearly different in “Quality”: 5 of 6 pairs of bots. Not yet known: 1 pair. First: alpha, not clearly "
    text += "better than beta."
    assertContains(page, text)
    assertContains(page, "rank 1 to 2")
    # The same count as in the details.
    other = staff.get(address(compared, "?part=comparisons"))
    assert text_of(other.content.decode()).count("Clearly different in “Quality”: 5 of 6 pairs of bots") == 1
    result = PARTS["comparisons"].make(data_of(AnalysisKey(compared, "comparisons")), None)
    for row in rows:
        interval = result.means.rows[row.bot.bot_id, "quality"].interval
        assert row.mean == f"{interval.mean:.2f}"
        assert f"{interval.low:.2f}" in row.ends


def test_equal_is_said_by_a_test_of_equality_and_a_late_change_of_it_too(staff: Client, db: None) -> None:
    study = make_study("s")
    for n in range(100):
        make_rating(make_conversation(study, n_exchanges=3), quality=3 + (n // 2 % 5 == 0))
    board = text_of(staff.get(address(study)).content.decode())
    assert "is within ± 0.60, the smallest difference of interest" in board
    assert "Equal for practical purposes (difference below 0.60): " in board
    assert "Not yet known: " not in board
    assert "was changed" not in board
    study_edit(study=study, smallest_difference=0.3)
    board = text_of(staff.get(address(study)).content.decode())
    assert "is within ± 0.30, the smallest difference of interest" in board
    assert "Equal for practical purposes (difference below" not in board, "not known with so few"
    late = "was changed after the first participants had started: from a tenth of the scale to 0.3."
    assert late in board
    details = text_of(staff.get(address(study, "?part=comparisons")).content.decode())
    assert (late in details, "The smallest difference of interest is 0.30 points." in details) == (True, True)


def test_the_overview_says_what_the_leaderboard_says(staff: Client, compared: Study) -> None:
    overview = reverse("dashboard:study", args=[compared.key])
    page = text_of(staff.get(overview).content.decode())
    assert "No single bot leads. alpha has the highest quality" in page
    assert "may be as good" in page
    assert "Not yet known: 1 of 6 pairs of bots. Compare them" in page
    assert "Clearly different pairs 5 of 6, by quality" in page


def test_chosen_bots_keep_their_ranks_among_all(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared, "?bots=gamma&bots=delta"))
    assert [row.ranks for row in page.context["board"].rows] == ["3", "4"]
    assertContains(page, "2 bots hidden; ranks and tests include all bots.")
    assertContains(page, "Clearly different in “Quality”: 5 of 6 pairs of bots")
    # What was chosen stays when the scale or the question is another.
    assertContains(page, "?bots=gamma&amp;bots=delta&amp;by=fluency")


def test_two_ticks_open_one_against_the_other(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared, "?against=gamma&against=alpha"))
    against = page.context["against"]
    assert (against.first.bot_id, against.second.bot_id) == ("alpha", "gamma")
    assert [(question.title, question.is_apart) for question in against.questions] == [
        ("Quality", True),
        ("Fluency", False),
    ]
    assert against.lead == "Clearly different in “Quality”. Not yet known in “Fluency”."
    pair = (
        PARTS["comparisons"].make(data_of(AnalysisKey(compared, "comparisons")), None).compared.pair("alpha", "gamma")
    )
    assert against.questions[0].gap == f"{pair.difference:.2f}"
    # The other way round the page is the same: the better one comes first.
    rows = [[cell.text for cell in row] for row in against.effects.table.rows]
    assert [row[0] for row in rows] == ["Quality", "Fluency"]
    assert rows[0][3] == f"{pair.difference / 6:.2f}"
    assertContains(page, '<details class="against-effects">')
    assertContains(page, "Chance of a higher rating")
    turned = staff.get(address(compared, "?against=alpha&against=gamma")).context["against"]
    assert turned.questions == against.questions
    alike = staff.get(address(compared, "?against=alpha&against=beta"))
    assert alike.context["against"].lead == "Not yet known in every question."
    assertContains(alike, "By quality: alpha and beta do not differ significantly with 15 raters each. It is not")
    assertContains(staff.get(address(compared, "?against=alpha")), "Select a second bot")


def test_conversations_are_drawn_from_the_middle_by_a_seed(staff: Client, compared: Study) -> None:
    where = address(compared, "?against=alpha&against=delta")
    page = staff.get(where)
    samples = page.context["samples"]
    assertContains(page, "Seed 1.")
    assert [quote.bot.bot_id for quote in samples.quotes] == ["alpha", "delta"] * 2
    assert samples.quotes == staff.get(where).context["samples"].quotes
    drawn = {tuple(quote.pk for quote in staff.get(f"{where}&seed={n}").context["samples"].quotes) for n in range(2, 5)}
    assert len(drawn) > 1
    assertContains(page, "&amp;seed=2#against")
    means = study_ratings(compared).per_conversation()
    for quote in samples.quotes:
        mine = means[means["bot"] == quote.bot.bot_id]["quality"]
        value = mine[quote.pk] if quote.pk in mine.index else mine[str(quote.pk)]
        assert np.quantile(mine, 0.25) <= value <= np.quantile(mine, 0.75)
        assert quote.text == f"two of {quote.bot.bot_id}"
    assert conversations_of_study(compared).filter(pk=samples.quotes[0].pk).exists()
    for _bot, href in samples.lines:
        assertContains(staff.get(href), "<strong>5</strong>")
    assert staff.get(samples.pairs[0]).status_code == 200


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?by=beauty", "Unknown question “beauty”. Choose from quality, fluency."),
        ("?bots=omega", "no rated bot “omega”. Choose from"),
        ("?against=alpha&against=omega", "no rated bot “omega”"),
        ("?seed=x", "“x” is not a valid seed"),
        ("?against=alpha&against=beta&against=gamma", "3 bots are selected"),
    ],
)
def test_what_an_address_cannot_ask_is_said(staff: Client, compared: Study, query: str, said: str) -> None:
    page = staff.get(address(compared, query))
    assert said in text_of(page.content.decode())
    assert len(page.context["board"].rows) == 4


def test_more_bots_ask_the_database_no_more_often(
    staff: Client, tmp_path: Path, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "DIRECT_BOTS", 20)
    asked = []
    for n in (2, 10):
        study = study_of(tmp_path, {f"b{i}": 3 + i / 3 for i in range(n)}, key=f"k{n}", n=4)
        where = address(study, "?against=b0&against=b1&by=fluency")
        staff.get(where)
        with CaptureQueriesContext(connection) as queries:
            assert staff.get(where).status_code == 200
        asked.append(len(queries))
    assert asked[0] == asked[1]


def test_a_large_study_waits_for_a_worker(staff: Client, compared: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 1)
    assertContains(staff.get(address(compared)), "The result is being computed")
    run_job(Job.objects.get(kind="results"))
    where = address(compared, "?against=alpha&against=delta")
    page = staff.get(where)
    assertContains(page, "Clearly different in “Quality”: 5 of 6 pairs of bots")  # it is there already
    assert "against" not in page.context
    computing = "A worker is comparing the bots on this question"
    assertContains(staff.get(address(compared, "?by=fluency")), computing)
    run_job(Job.objects.get(kind="results", payload__part="dimensions"))
    assertContains(staff.get(where), "Clearly different in “Quality”.")
    assertNotContains(staff.get(address(compared, "?by=fluency")), computing)


def test_no_ratings_is_said(staff: Client, rated: Study) -> None:
    rated.conversations.all().delete()
    assertContains(staff.get(address(rated)), "No ratings yet")


def test_every_drawn_mark_is_within_its_row(staff: Client, compared: Study) -> None:
    html = staff.get(address(compared)).content.decode()
    places = [float(x) for x in re.findall(r' x="(-?[\d.]+)%"', html)]
    assert places
    assert min(places) >= 0
    assert max(places) <= 100


def test_votes_are_a_tab_with_intervals_that_count_conversations_as_clusters(staff: Client, compared: Study) -> None:
    assertNotContains(staff.get(address(compared)), "by=votes")
    replies = Turn.objects.filter(conversation__study=compared, speaker="bot")
    of_alpha = replies.filter(conversation__bot__bot_id="alpha")
    chats = list(of_alpha.order_by("conversation").values_list("conversation", flat=True).distinct()[:8])
    of_alpha.filter(conversation__in=chats[:6]).update(vote=1)
    of_alpha.filter(conversation__in=chats[6:]).update(vote=-1)
    of_beta = replies.filter(conversation__bot__bot_id="beta").order_by("pk")
    of_beta.filter(pk=of_beta.values_list("pk", flat=True)[0]).update(vote=-1)
    page = staff.get(address(compared, "?by=votes"))
    assertContains(page, "25 votes on single replies.")
    rows = {row.bot.bot_id: row for row in page.context["board"].rows}
    assert list(rows) == ["alpha", "beta", "gamma", "delta"]
    assert (rows["alpha"].n, rows["alpha"].mean) == ("18 up, 6 down", "75 %")
    # Replies of one chat agree: 24 votes are worth the 7 that 8 chats, less one, tell; Wilson's ends of 3 in 4 of 7
    # with Student's t in place of the normal.
    alpha = 2 * stats.norm.sf(stats.t.ppf(0.95, 7))
    low, high = proportion_confint(0.75 * 7, 7, alpha=alpha, method="wilson")
    assert rows["alpha"].ends == f"[{100 * low:.0f}, {100 * high:.0f}]"
    assert (rows["beta"].mean, rows["gamma"].ends) == ("0 %", "no votes")
    assert rows["beta"].ends == "no interval: all votes are from one conversation"
    summary = bot_summary(compared)
    assert {bot.bot.bot_id: (bot.votes_up, bot.votes_down) for bot in summary.bots}["alpha"] == (18, 6)
    against = staff.get(address(compared, "?by=votes&against=alpha&against=beta")).context["against"]
    assert (against.first.bot_id, against.second.bot_id) == ("alpha", "beta")


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def with_control(db: None, tmp_path: Path) -> Study:
    """Make a study of four bots, the first two alike, whose last is a control."""
    study = study_of(tmp_path, LEVELS)
    BotVersion.objects.filter(bot_id="delta").update(is_control=True)
    return study


def picture_of(staff: Client, page: Any, what: str) -> tuple[Any, ElementTree.Element]:
    """Return the response that the page's link leads to, and the drawing in it."""
    [href] = re.findall(rf'href="([^"]*{what}\.svg[^"]*)"', page.content.decode())
    response = staff.get(unescape(href))
    assert response.status_code == 200
    assert response["Content-Type"] == "image/svg+xml; charset=utf-8"
    return response, ElementTree.fromstring(response.content)


def texts(root: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def values(root: ElementTree.Element, marks: list[ElementTree.Element]) -> list[float]:
    """Return at which values marks stand, by the labels of the axis."""
    ticks = [(share(one), float((one.text or "").replace("−", "-"))) for one in of_class(root, "middle")]
    (x0, low), (x1, high) = ticks[0], ticks[-1]
    return [low + (share(mark) - x0) / (x1 - x0) * (high - low) for mark in marks]


def share(mark: ElementTree.Element) -> float:
    return float(mark.get("x", "").removesuffix("%"))


def test_the_picture_has_the_numbers_of_the_page(staff: Client, with_control: Study) -> None:
    page = staff.get(address(with_control))
    response, root = picture_of(staff, page, "board")
    assert 'filename="c-quality.svg"' in response["Content-Disposition"]
    board = page.context["board"]
    said = texts(root)
    for row in board.rows:
        assert {row.bot.title, row.ranks, row.n, f"{row.mean} {row.ends}"} <= set(said)
    ticks = of_class(root, "mean-tick")
    assert values(root, ticks) == pytest.approx([row.place.mean.mean for row in board.rows], abs=0.02)
    assert ["hollow" in tick.get("class", "") for tick in ticks] == [False, False, False, True]
    assert len(of_class(root, "interval")) == 4
    assert len(of_class(root, "joins")) == 2, "one bar, over the two rows of alpha and beta"
    assert root.findtext(f"{SVG}title") == f"{with_control.name}: Quality, 1 to 7"
    assert board.verdict in (root.findtext(f"{SVG}desc") or "")


def test_the_picture_shows_what_the_page_was_asked_for(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared, "?by=fluency&bots=gamma&bots=beta"))
    response, root = picture_of(staff, page, "board")
    assert 'filename="c-fluency.svg"' in response["Content-Disposition"]
    assert {"beta", "gamma"} < set(texts(root))
    assert "alpha" not in texts(root)
    assert of_class(root, "strip-shown")
    assert "2 bots hidden" in (root.findtext(f"{SVG}desc") or "")


def test_the_picture_of_two_bots_draws_differences(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared, "?against=delta&against=alpha"))
    response, root = picture_of(staff, page, "against")
    against = page.context["against"]
    assert 'filename="c-alpha-delta.svg"' in response["Content-Disposition"]
    bold = [one.text for one in of_class(root, "strong")]
    for one in against.questions:
        assert f"{one.gap} {one.ends}" in texts(root)
        assert (f"{one.gap} {one.ends}" in bold) == one.is_apart
    gaps = [float(question.gap.replace("−", "-")) for question in against.questions]
    assert [float(v) for v in values(root, of_class(root, "mean-tick"))] == pytest.approx(gaps, abs=0.02)
    # Hollow: no significant difference.
    assert ["hollow" in one.get("class", "") for one in of_class(root, "interval")] == [False, True]
    assert against.lead in (root.findtext(f"{SVG}desc") or "")


def test_pictures_need_nothing_from_elsewhere(staff: Client, compared: Study) -> None:
    page = staff.get(address(compared, "?against=alpha&against=delta"))
    for what in ("board", "against"):
        response, root = picture_of(staff, page, what)
        text = response.content.decode().replace("http://www.w3.org/2000/svg", "")
        for outside in ("http", "href", "var(", "url(", "@import", "<script"):
            assert outside not in text
        known = set(re.findall(r"\.([a-z][a-z0-9-]*)", root.findtext(f"{SVG}style") or ""))
        used = {name for one in root.iter() for name in one.get("class", "").split()}
        assert used <= known | {"tile", "cell-svg"}, "a class without a style would be drawn black"
        for kind, start in (("pdf", b"%PDF-"), ("png", b"\x89PNG")):
            file = staff.get(reverse("dashboard:study_results_picture", args=["c", what, kind]), page.wsgi_request.GET)
            assert file.status_code == 200
            assert file.content.startswith(start)


@pytest.mark.parametrize(
    ("what", "query"), [("board", "?by=beauty"), ("against", "?against=alpha"), ("against", ""), ("board", "?by=votes")]
)
def test_where_there_is_no_picture_the_page_says_why(staff: Client, compared: Study, what: str, query: str) -> None:
    response = staff.get(reverse("dashboard:study_results_picture", args=["c", what, "svg"]) + query)
    assert response.status_code == 302
    assert response["Location"] == address(compared, query or "?")


def test_many_bots_with_long_names_stay_inside_and_are_all_numbered(
    staff: Client, db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "DIRECT_BOTS", 20)
    study = study_of(
        tmp_path, {f"a bot with quite a long name, number {n} <&>": 2 + n / 4 for n in range(18)}, key="many", n=4
    )
    _response, root = picture_of(staff, staff.get(address(study)), "board")
    cut = [text for text in texts(root) if text.startswith("a bot with")]
    assert len(cut) == 18
    assert all(text.endswith("…") for text in cut)
    numbers = {one.text for one in of_class(root, "tile-number")}
    assert numbers == {str(n) for n in range(1, 19)}, "marks of more bots than there are shapes are all numbers"


def test_folded_sections_have_the_details(staff: Client, compared: Study) -> None:
    questions = staff.get(address(compared, "?part=questions"))
    assertContains(questions, "Ratings of each bot")
    assertContains(questions, '<th scope="row">', count=4)
    pairs = text_of(staff.get(address(compared, "?part=comparisons&difference=1")).content.decode())
    assert "How far apart are they?" in pairs
    assert "Raters needed for each pair" in pairs
    assert "Raters per bot for other differences, in a new study" in pairs
    assert staff.get(address(compared, "?part=nothing")).status_code == 404
    # Figures are files in three kinds.
    for kind in ("svg", "pdf", "png"):
        file = staff.get(address(compared, f"?part=questions&figure_file=bots.{kind}"))
        assert file.status_code == 200
        assert f'filename="bots.{kind}"' in file["Content-Disposition"]
    for unknown in ("bots.gif", "nothing.svg"):
        assert staff.get(address(compared, f"?part=questions&figure_file={unknown}")).status_code == 404
