"""Can it replace people? The page, the command, the API and the report show one result."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from evaluation.agreement.judges.gold import gold_of_chats
from evaluation.findings import Reason
from evaluation.hybrid.rivals import LENGTH_RIVALS
from evaluation.replacement.result import (
    BotRanking,
    CandidateVerdict,
    Equality,
    RatingsWorth,
    ReplacementResult,
    RivalErrors,
    Settlement,
)
from evaluation.stats.effect_sizes import Effect
from tests.builders import make_annotated, make_study
from tests.webapp.dashboard.analysis.test_one_result import text_of
from tests.webapp.participant.test_choose import KEYS, choose, make_choosing
from webapp.conversations.selectors import conversations_for_metrics
from webapp.insights.narrative.replacement import candidate_cards
from webapp.jobs.models import Job
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_conversations, study_ratings
from webapp.results.cache import AnalysisKey, compute_now, get_result
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store
from webapp.transfer.import_file import import_conversations

LEVELS = {f"b{k}": 2.0 + 0.45 * k for k in range(8)}


def import_bots(path: Path, key: str = "swap", n: int = 12) -> Study:
    """Import chats of eight bots, from bad to good; every second one of a bot is rated."""
    rng = np.random.default_rng(48)
    lines = []
    for bot, level in LEVELS.items():
        for number in range(2 * n):
            words = [" ".join(["word"] * int(rng.integers(1, 9))) for _turn in range(int(rng.integers(2, 5)) * 2)]
            turns = [{"speaker": ("human", "bot")[k % 2], "text": text} for k, text in enumerate(words)]
            rating = {"rater": f"w{number}", "quality": int(np.clip(round(level + rng.normal(0, 0.7)), 1, 7))}
            lines.append(
                {
                    "dialogue_id": f"{bot}-{number}",
                    "bot": bot,
                    "source": "x",
                    "turns": turns,
                    "ratings": [rating] if number % 2 else [],
                }
            )
    (path / "swap.jsonl").write_text("\n".join(map(json.dumps, lines)))
    import_conversations(path / "swap.jsonl", study_key=key, scale=(1, 7))
    return Study.objects.get(key=key)


def store_judge(study: Study, title: str, scores: dict[str, float]) -> None:
    """Store a finished comparison of a judge with these scores by bot, and noise."""
    rng = np.random.default_rng(1)
    rows = study_conversations(study)
    names = {str(pk): bot for pk, bot in rows.values_list("pk", "bot__bot_id")}
    chats = {chat: names[chat.id] for chat in conversations_for_metrics(rows)}
    gold = gold_of_chats(study_ratings(study), chats, name=study.name)
    values = [scores[bot] + float(rng.normal(0, 0.2)) for bot in gold.models]
    judge = {"title": title, "scores": [values]}
    result = {"unit": "chat", "question": "quality", "digests": list(gold.digests), "judges": [judge], "sentences": []}
    Job.objects.create(kind="judges", study=study, state=Job.State.DONE, result=result, key=title, payload={})


@pytest.fixture(scope="module")
def swap(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make the study with metrics, a judge that knows the bots, one that does not, and a table of the bots."""
    study = import_bots(tmp_path_factory.mktemp("swap"))
    call_command(
        "compute_metrics", "--study", study.key, "--metrics", "words,length,question", "--inline", stdout=io.StringIO()
    )
    store_judge(study, "Knows", LEVELS)
    store_judge(study, "Guesses", dict.fromkeys(LEVELS, 4.0))
    table = "bot,bench\n" + "\n".join(f"{bot},{level}" for bot, level in LEVELS.items())
    bot_columns_store(study=study, columns=bot_columns_read(table.encode(), list(LEVELS), "bots.csv"))
    compute_now(AnalysisKey(study, "replacement"), wait=lambda: None)
    return study.pk


@pytest.fixture
def study(swap: int, db: None) -> Study:
    return Study.objects.get(pk=swap)


def address(key: str) -> str:
    return reverse("dashboard:study_replacement", args=[key])


def test_every_reader_is_told_the_same(staff: Client, study: Study, tmp_path: Path) -> None:
    out = io.StringIO()
    call_command("can_replace", study.key, "--json", stdout=out)
    document = json.loads(out.getvalue())
    result = ReplacementResult.from_json(document)
    by_title = {verdict.title: verdict for verdict in result.candidates}
    assert {"Judge (Knows)", "Judge (Guesses)", "Panel of 2 judges", "Imported scores (bench)"} < set(by_title)
    assert by_title["Judge (Knows)"].standing in ("yes", "ranking")
    assert by_title["Judge (Guesses)"].standing in ("no", "not_known")
    assert by_title["Judge (Knows)"].share_scored == 1.0
    assert (result.n_ratings, result.n_unrated, result.margin) == (96, 96, pytest.approx(0.6))
    page = staff.get(address(study.key))
    text = text_of(page.content.decode())
    assert result.sentence in text
    for card in page.context["candidates"]:
        assert card.title in by_title
        assert [question.question for question in card.questions] == [
            "Ranks bots as people do",
            "Same values as people",
            "Saves ratings",
        ]
    assert "Needs metrics that are not computed, such as" in text
    assert "Self-play: Start a self-play run with the bots of the study." in text
    assert page.context["result"].to_json() == document
    path = tmp_path / "report.html"
    call_command("report", "--study", study.key, "--output", str(path), "--sections=replacement", stdout=io.StringIO())
    assert result.sentence in text_of(path.read_text())
    printed = io.StringIO()
    call_command("can_replace", study.key, stdout=printed)
    assert "Judge (Knows)" in printed.getvalue()


def test_numbers_lead_to_the_chats_behind_them(staff: Client, study: Study) -> None:
    page = staff.get(address(study.key))
    table = next(table for table in page.context["verdict"].tables if table.id == "replacement-bots")
    bot = next(cell for cell in table.table.rows[0] if cell.href)
    assert staff.get(bot.href).status_code == 200
    assert f"bot:{bot.text}" in bot.href


def test_every_empty_cell_of_the_candidates_has_a_reason(staff: Client, study: Study) -> None:
    [table] = [t for t in staff.get(address(study.key)).context["verdict"].tables if t.id == "replacement"]
    empty = [cell for row in table.table.rows for cell in row if cell.text in ("", "–")]
    assert empty
    assert [cell for cell in empty if not cell.reason] == []
    untested = [row for row in table.table.rows if row[0].text.startswith("Hybrid metric")]
    assert untested
    assert all(cell.text != "0" for row in untested for cell in row[5:11]), "undefined is not 0"


def test_the_page_is_the_entry_to_the_candidates(staff: Client, study: Study) -> None:
    page = staff.get(address(study.key))
    for route in ("study_prediction", "study_simulated"):
        href = reverse(f"dashboard:{route}", args=[study.key])
        assertContains(page, href)
        assertContains(staff.get(href), address(study.key))
    assertContains(page, reverse("dashboard:judges"))


def test_new_ratings_make_the_result_old(staff: Client, study: Study) -> None:
    assert get_result(AnalysisKey(study, "replacement")).is_current
    Rating.objects.filter(conversation__study=study).first().delete()
    answer = get_result(AnalysisKey(Study.objects.get(pk=study.pk), "replacement"))
    assert not answer.is_current
    assertContains(staff.get(address(study.key)), "The result is being updated.")


def test_a_new_judge_makes_the_result_old(study: Study) -> None:
    assert get_result(AnalysisKey(study, "replacement")).is_current
    store_judge(study, "Another", LEVELS)
    assert not get_result(AnalysisKey(study, "replacement")).is_current


def test_self_play_is_not_said_to_be_better_than_itself() -> None:
    rivals = tuple(RivalErrors(name, Effect(0.5, 0.4, 0.6), 0.001) for name in LENGTH_RIVALS)
    ranking = BotRanking("yes", Effect(0.9, 0.7, 1.0), n_bots=9, rivals=rivals)
    missing = Reason("no_margin", "no margin")
    verdict = CandidateVerdict(
        *("selfplay", "strong", "Self-play", ranking),
        equality=Equality("not_known", reason=missing),
        worth=RatingsWorth("not_known", reason=missing),
    )
    result = ReplacementResult("quality", None, ("a",), 9, 0, "raters", (verdict,))
    [card] = candidate_cards(None, result)  # type: ignore[arg-type]
    assert card.questions[0].evidence == "r .90 [.70, 1.00] over 9 bots, better than chance and length."


def test_forecasts_are_rounded_and_a_missing_fit_says_why() -> None:
    no_fit = Reason("in_words", "2 bots with rated conversations", words="2 bots with rated conversations")
    verdict = CandidateVerdict(
        *("hybrid", "paper", "Hybrid metric (paper)", BotRanking("not_known", reason=no_fit)),
        equality=Equality("not_known", reason=no_fit, settled_by=Settlement("ratings")),
        worth=RatingsWorth("not_known", saved=Effect(1.0, -61.0, 39.0), settled_by=Settlement("ratings", 48_806)),
    )
    [card] = candidate_cards(None, ReplacementResult("q", 0.5, ("a",), 9, 0, "raters", (verdict,)))  # type: ignore[arg-type]
    assert card.questions[0].evidence == "2 bots with rated conversations."
    assert card.questions[1].settled_by == "More ratings would settle it."
    assert card.questions[2].settled_by == "About 49,000 ratings in total would settle it if the results stay the same."


def test_without_ratings_or_whole_chats_the_page_says_what_is_missing(staff: Client, db: None) -> None:
    page = staff.get(address(make_study("empty").key))
    assertContains(page, "No ratings yet")
    assertNotContains(page, "candidate card")
    with pytest.raises(CommandError, match="has no ratings yet, so nothing can be compared"):
        call_command("can_replace", "empty", stdout=io.StringIO())
    assertContains(staff.get(address(make_annotated("items").key)), "No ratings yet")


def test_without_whole_chats_the_verdict_says_so(db: None) -> None:
    study = make_choosing()
    choose(study, *KEYS[:4])
    computed = compute_now(AnalysisKey(study, "replacement"), wait=lambda: None)
    assert computed is not None
    assert (
        computed.result.sentence
        == "There is no candidate: participants of this study rate neither chats nor single replies."
    )
