"""Every mark opens its conversations: as many as it is about, in the order that it says, with turns highlighted."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from evaluation.data.ratings import MEAN_KEY
from tests.benchmarks.results_there import fit_make, metrics_of_fit, metrics_store
from tests.builders import make_conversation, make_rating, make_study
from webapp.conversations.models import Conversation, Turn
from webapp.jobs.models import HybridFit
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.results.refresh import refresh_flags
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Dimension, Study
from webapp.studies.services import bot_columns_store
from webapp.transfer.import_file import import_conversations

LEVELS = {"alpha": 5.4, "beta": 5.0, "gamma": 4.2, "delta": 3.2, "omega": 2.4}
N_CHATS = 9


def imported_study(path: Path, key: str, *questions: str) -> Study:
    """Make a study whose chats have one to three raters, some of whom skip the last question."""
    rng = np.random.default_rng(8)
    lines = []
    for bot, level in LEVELS.items():
        for number in range(N_CHATS):
            ratings = []
            for rater in range(1 + number % 3):
                answers = {q: int(np.clip(round(level + rng.normal(0, 1.2)), 1, 7)) for q in questions}
                if (number + rater) % 5 == 4:
                    del answers[questions[-1]]
                ratings.append({"rater": f"w{(number + rater) % 6}", **answers})
            turns = [
                {"speaker": speaker, "text": f"{words} of {bot} {number}"}
                for words in ("one", "two", "three")
                for speaker in ("human", "bot")
            ]
            lines.append(json.dumps({"dialogue_id": f"{bot}-{number}", "bot": bot, "turns": turns, "ratings": ratings}))
    (path / f"{key}.jsonl").write_text("\n".join(lines))
    import_conversations(path / f"{key}.jsonl", study_key=key, scale=(1, 7))
    study = Study.objects.get(key=key)
    for chat in study.conversations.all()[::2]:
        Turn.objects.filter(conversation=chat, index=3).update(vote=-1)
    return study


@pytest.fixture(scope="module")
def whole_of_file(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make a study with a question on the whole, its metrics and a fit; return its primary key."""
    study = imported_study(tmp_path_factory.mktemp("whole"), "whole", "quality", "fluency")
    metrics_store(study, metrics_of_fit())
    fit_make(study)
    return study.pk


@pytest.fixture
def study(whole_of_file: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=whole_of_file)


@pytest.fixture(scope="module")
def mean_of_file(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make a study whose bots are ranked by the mean of two questions, of which one is reversed."""
    study = imported_study(tmp_path_factory.mktemp("mean"), "mean", "fluent", "robotic")
    dimension = Dimension.objects.get(rubric=study.rubric, key="robotic")
    dimension.reversed = True
    dimension.save()
    return study.pk


def links_of(html: str, part: str = "") -> list[tuple[str, str]]:
    """Return address and label of every link of a page, or of the part after a text, to conversations."""
    links = re.findall(r'<a\b[^>]*?href="([^"]*/conversations/[^"]*)"[^>]*>', html[html.index(part) if part else 0 :])
    return [(unescape(href), "") for href in links]


def marks_of(html: str) -> list[str]:
    """Return every mark of the drawings for wide pages."""
    wide = "".join(re.findall(r'<div class="figure-wide">(.*?)<div class="figure-narrow">', html, re.DOTALL))
    return re.findall(r'<(?:a|g)\b[^>]*class="mark"[^>]*>', wide)


def opened(staff: Client, href: str) -> list[UUID]:
    """Return the conversations that a link opens, all pages, in the order of the list."""
    listed: list[UUID] = []
    while href:
        answer = staff.get(href)
        assert answer.status_code == 200, href
        assert answer.context["bench"].wrong is None, (href, answer.context["bench"].wrong)
        listed += [row[0].conversation.pk for row in answer.context["rows"]]
        total = answer.context["page"].total
        following = answer.context["next_page"]
        href = f"{href.partition('?')[0]}{following}" if following else ""
    assert len(listed) == total
    return listed


def rated(study: Study, key: str) -> pd.DataFrame:
    """Return the mean of a question by conversation, from the ratings that the analysis reads."""
    ratings = study_ratings(study)
    frame = pd.DataFrame({"chat": ratings.conversation, "bot": ratings.bot, "value": ratings.values(key)})
    return frame.dropna().groupby("chat").agg(bot=("bot", "first"), value=("value", "mean"), n=("value", "size"))


def assert_opens(staff: Client, href: str, expected: pd.Series) -> None:
    """Check that a link opens these conversations, the lowest value first."""
    chats = [str(pk) for pk in opened(staff, href)]
    assert sorted(chats) == sorted(expected.index)
    values = expected.loc[chats].to_numpy()
    assert (np.diff(values) >= -1e-9).all(), values


def page_of(staff: Client, route: str, study: Study, query: str = "") -> Any:
    answer = staff.get(reverse(f"dashboard:{route}", args=[study.key]) + query)
    assert answer.status_code == 200
    return answer


@pytest.mark.parametrize("key", ["quality", "fluency"])
def test_rows_of_the_leaderboard_open_their_chats_worst_first(staff: Client, study: Study, key: str) -> None:
    answer = page_of(staff, "study_results", study, f"?by={key}" if key != "quality" else "")
    html, table = answer.content.decode(), rated(study, key)
    rows = answer.context["board"].rows
    assert len(rows) == len(LEVELS)
    for row in rows:
        assert_opens(staff, row.href, table[table.bot == row.bot.bot_id].value)
        # The rank, the name, the bar and the mean.
        assert unescape(html).count(f'href="{row.href}"') == 4
        assert "highlight=feedback" in row.href


def test_the_mean_of_several_questions_sorts_and_is_shown_in_each_row(
    staff: Client, mean_of_file: int, db: None
) -> None:
    study = Study.objects.get(pk=mean_of_file)
    answer = page_of(staff, "study_results", study)
    assert answer.context["board"].key == MEAN_KEY
    table = rated(study, MEAN_KEY)
    for row in answer.context["board"].rows:
        assert_opens(staff, row.href, table[table.bot == row.bot.bot_id].value)
    first = staff.get(row.href).context["rows"][0][0]
    number, value = first.figures[0]
    assert (number.name, number.title) == (MEAN_KEY, "Mean of all dimensions")
    assert value == pytest.approx(table.loc[str(first.conversation.pk)].value)
    # A question that counts the other way is sorted by the answers as they were given.
    robotic = page_of(staff, "study_results", study, "?by=robotic").context["board"].rows[0]
    own = rated(study, "robotic")
    assert_opens(staff, robotic.href, own[own.bot == robotic.bot.bot_id].value)


def test_all_bars_cells_and_pairs_are_links(staff: Client, study: Study) -> None:
    for query in ("?part=questions", "?part=comparisons"):
        html = page_of(staff, "study_results", study, query).content.decode()
        marks = marks_of(html)
        assert marks
        assert [mark for mark in marks if not mark.startswith("<a ")] == []
        assert all("/conversations/" in mark for mark in marks)
    titles = {bot: bot for bot in LEVELS}
    table = rated(study, "quality")
    for mark in marks[::4]:  # differences of pairs
        href, label = (unescape(re.search(rf'{name}="([^"]*)"', mark)[1]) for name in ("href", "aria-label"))  # type: ignore[index]
        pair = label.splitlines()[0].split(" − ")
        assert_opens(staff, href, table[table.bot.isin([titles[name] for name in pair])].value)


def test_bars_of_all_questions_open_the_chats_with_an_answer(staff: Client, study: Study) -> None:
    html = page_of(staff, "study_results", study, "?part=questions").content.decode()
    for mark in marks_of(html)[::2]:
        href, label = (unescape(re.search(rf'{name}="([^"]*)"', mark)[1]) for name in ("href", "aria-label"))  # type: ignore[index]
        bot, what = label.splitlines()[:2]
        if "down on" in what:
            voted = set(
                Turn.objects.filter(conversation__study=study, conversation__bot__bot_id=bot, vote=-1).values_list(
                    "conversation", flat=True
                )
            )
            assert set(opened(staff, href)) == voted
            continue
        table = rated(study, what.split()[0].lower())
        assert_opens(staff, href, table[table.bot == bot].value)


def test_two_bots_open_both_on_each_question(staff: Client, study: Study) -> None:
    answer = page_of(staff, "study_results", study, "?against=alpha&against=omega")
    questions = answer.context["against"].questions
    assert questions
    for question in questions:
        table = rated(study, question.title.lower())
        assert_opens(staff, question.href, table[table.bot.isin(["alpha", "omega"])].value)


def test_answers_open_their_chats_and_agreement_the_most_disputed(staff: Client, study: Study) -> None:
    html = page_of(staff, "study_why", study, "?part=agreement&only").content.decode()
    marks = marks_of(html)
    assert marks
    table = rated(study, "quality")
    for mark in marks[:6:2]:
        assert mark.startswith("<a ")
        href, label = (unescape(re.search(rf'{name}="([^"]*)"', mark)[1]) for name in ("href", "aria-label"))  # type: ignore[index]
        bot, counts = label.splitlines()
        answer = int(counts.split(":")[0])
        ratings = Rating.objects.filter(
            conversation__study=study, conversation__bot__bot_id=bot, answers__quality=answer
        )
        expected = set(ratings.values_list("conversation", flat=True))
        chats = opened(staff, href)
        assert set(chats) == expected
    html = page_of(staff, "study_why", study, "?part=raters&only").content.decode()
    disputed = [
        href
        for href, _ in links_of(html, 'id="c-agreement"' if 'id="c-agreement"' in html else "")
        if "sort:-spread.quality" in href
    ]
    assert disputed
    shared = table[table.n > 1]
    chats = [str(pk) for pk in opened(staff, disputed[0])]
    assert sorted(chats) == sorted(shared.index)
    spreads = [_spread(pk) for pk in chats]
    assert spreads == sorted(spreads, reverse=True)


def _spread(pk: str) -> float:
    answers = [rating.answers["quality"] for rating in Rating.objects.filter(conversation=pk)]
    gaps = [abs(a - b) for i, a in enumerate(answers) for b in answers[i + 1 :]]
    return round(sum(gaps) / len(gaps), 9)


def rows_of(html: str, caption: str) -> list[tuple[str, str]]:
    """Return text and address of the first link in each row of a table; empty without one."""
    [table] = [t for t in BeautifulSoup(html, "html.parser").select("table") if caption in t.caption.get_text()]  # type: ignore[union-attr]
    rows = [(row.get_text(" ", strip=True), row.select_one("a")) for row in table.select("tbody tr")]
    return [(text, "" if link is None else str(link["href"])) for text, link in rows]


def test_terms_and_levels_of_models_open_the_rated_chats(staff: Client, study: Study) -> None:
    corpus = {bot: "reddit" if bot in ("alpha", "beta") else "plain" for bot in LEVELS}
    bot_columns_store(study=study, columns=BotColumns(factors={"corpus": corpus}))
    html = page_of(staff, "study_why", study, "?part=models&only").content.decode()
    both = rated(study, "quality").index.intersection(rated(study, "fluency").index)
    table = rated(study, "quality").loc[both]
    *terms, residual = rows_of(html, "Analysis of variance")
    assert [text.split()[0] for text, _href in terms] == ["corpus"]
    assert residual[1] == ""
    for _text, href in terms:  # the sum of both questions
        assert_opens(staff, href, table.value)
    levels = rows_of(html, "Means of the levels")
    assert len(levels) == 2
    for text, href in levels:
        assert_opens(staff, href, table[table.bot.map(corpus) == text.split()[1]].value)


def test_rows_of_a_formula_open_the_chats_of_their_bots(staff: Client, study: Study) -> None:
    address = "?part=formula&only&outcome=fluency&terms=bot+%2B+(1|rater)&kind=linear"
    html = page_of(staff, "study_why", study, address).content.decode()
    table = rated(study, "fluency")
    for caption, n_bots in (("Tests of the terms", len(LEVELS)), ("Differences between", 2), ("Marginal means", 1)):
        rows = rows_of(html, caption)
        for text, href in (rows[0], rows[-1]):
            bots = [bot for bot in LEVELS if bot in text] or [*LEVELS]
            assert len(bots) == n_bots, text
            assert_opens(staff, href, table[table.bot.isin(bots)].value)


def test_correlations_with_metrics_open_the_chats_with_both(staff: Client, study: Study) -> None:
    html = page_of(staff, "study_why", study, "?part=correlations&only").content.decode()
    part = html[html.index('data-figure="metrics-dimensions"') :]
    marks = [mark for mark in marks_of(part[: part.index("</figure>")]) if "leave-one-bot-out" not in mark]
    assert marks
    assert [mark for mark in marks if not mark.startswith("<a ")] == []
    for mark in marks[:8:3]:
        href, label = (unescape(re.search(rf'{name}="([^"]*)"', mark)[1]) for name in ("href", "aria-label"))  # type: ignore[index]
        n = int(re.search(r"n = (\d+)", label)[1])  # type: ignore[index]
        chats = opened(staff, href)
        assert len(chats) == n
        column = re.search(r"sort:-metric\.(\w+)", href)[1]  # type: ignore[index]
        values = [_metric(pk, column) for pk in chats]
        assert values == sorted(values, reverse=True)


def _metric(pk: UUID, column: str) -> float:
    for values in Conversation.objects.get(pk=pk).metric_results.values_list("values", flat=True):
        if column in values:
            return float(values[column])
    raise AssertionError(column)


def test_predictions_open_the_largest_errors_first(staff: Client, study: Study) -> None:
    answer = page_of(staff, "study_prediction", study)
    html = answer.content.decode()
    part = html[html.index('data-figure="scatter"') :]
    marks = marks_of(part[: part.index("</figure>")])
    assert len(marks) == len(LEVELS)
    residuals = HybridFit.objects.get(study=study).predictions["residual"]
    for mark in marks:
        href, label = (unescape(re.search(rf'{name}="([^"]*)"', mark)[1]) for name in ("href", "aria-label"))  # type: ignore[index]
        bot = label.splitlines()[0]
        own = set(study.conversations.filter(bot__bot_id=bot).values_list("pk", flat=True))
        expected = {pk: -abs(error) for pk, error in residuals.items() if UUID(pk) in own}
        assert_opens(staff, href, pd.Series(expected))
    weights = html[html.index('data-figure="weights"') :]
    assert all(mark.startswith("<a ") for mark in marks_of(weights[: weights.index("</figure>")]))


def test_the_reader_highlights_the_replies_voted_down_or_says_that_there_are_none(staff: Client, study: Study) -> None:
    address = reverse("dashboard:study_conversations", args=[study.key])
    for chat in study.conversations.order_by("pk")[:4]:
        html = staff.get(address, {"chat": str(chat.pk), "highlight": "feedback"}).content.decode()
        n_down = Turn.objects.filter(conversation=chat, vote=-1).count()
        assert html.count("is-highlighted") == html.count("Voted down") == n_down
        assert ("No reply in this conversation was voted down" in html) == (not n_down)


def test_the_reader_highlights_the_extreme_values_of_a_metric(staff: Client, study: Study) -> None:
    chat = study.conversations.first()
    assert chat is not None
    result = chat.metric_results.first()
    assert result is not None
    result.turns = {"words_bot": [None, 4.0, None, 9.0, None, 6.0]}
    result.save()
    address = reverse("dashboard:study_conversations", args=[study.key])
    for highlight, order in (("-words_bot", [3, 5, 1]), ("words_bot", [1, 5, 3])):
        answer = staff.get(address, {"chat": str(chat.pk), "highlight": highlight})
        read = answer.context["pane"].read
        reasons = {turn.index: turn.highlight for turn in read.turns if turn.highlight}
        assert sorted(reasons, key=lambda index: (", " in reasons[index].split(":")[0], reasons[index])) == order
        assert read.chosen == min(order)
        assert "words_bot" in [track.chosen.name for track in read.tracks]
    unknown = staff.get(address, {"chat": str(chat.pk), "highlight": "<b>"})
    assert unknown.context["bench"].selection.highlight == ""


def test_an_old_address_still_opens_the_same_list(staff: Client, study: Study) -> None:
    address = reverse("dashboard:study_conversations", args=[study.key])
    old = staff.get(address, {"bot": "alpha", "question": "quality", "answer": "5", "sort": "low:quality"})
    new = staff.get(address, {"q": "bot:alpha any.quality:5 sort:quality"})
    assert [r[0].conversation.pk for r in old.context["rows"]] == [r[0].conversation.pk for r in new.context["rows"]]


WITHOUT_CHATS = {
    "Raters per bot for other differences, in a new study": "a plan of a study without chats",
    "Comparison with conversation length": "predictors of bots, each over all chats",
    "Checks": "single numbers on the fit",
    "Correlation with each rating dimension": "predictions of bots, each over all chats",
    "Results of the rater filters": "numbers of raters; flagged raters have links in the next table",
    "metrics-dimensions": "rows of the hybrid metric, whose predictions are no column of the search",
    "bots-dimensions": "points are bots, from chats and self-play",
}
"""Figures and tables whose marks open no chats, by id or caption, with the reason."""


def test_every_figure_and_table_of_results_opens_chats(staff: Client, study: Study) -> None:
    pages = ["study_results ", "study_results ?part=questions", "study_results ?part=comparisons", "study_prediction "]
    parts = ("models", "raters", "agreement", "trajectories", "correlations", "powered")
    pages += [f"study_why ?part={part}&only" for part in parts]
    unlinked, n_seen = [], 0
    for page in pages:
        route, _space, query = page.partition(" ")
        soup = BeautifulSoup(page_of(staff, route, study, query).content, "html.parser")
        for figure in soup.select("figure[data-figure]"):
            marks = figure.select(".figure-wide .mark")
            n_seen += 1
            if any(mark.name != "a" for mark in marks):
                unlinked.append((page, figure["data-figure"]))
        for table in soup.select("table"):
            caption = table.caption.get_text() if table.caption else ""
            if table.find_parent("figure"):
                continue  # the figure's own numbers
            n_seen += 1
            if not any(row.select_one("a[href]") for row in table.select("tbody tr")):
                unlinked.append((page, caption))
    assert {name for _page, name in unlinked} == set(WITHOUT_CHATS)
    assert n_seen > 20


def test_flags_link_to_chats(staff: Client, rated_study: Study) -> None:
    assert TaskFlag.objects.filter(participant__study=rated_study).exists()
    html = page_of(staff, "study_people", rated_study).content.decode()
    links = [href for href, _ in links_of(html) if "flag:" in href]
    assert links
    for href in links:
        name = re.search(r"flag:(\w+)", href)[1]  # type: ignore[index]
        people = TaskFlag.objects.filter(participant__study=rated_study, name=name).values("participant")
        expected = set(rated_study.conversations.filter(participant__in=people).values_list("pk", flat=True))
        assert set(opened(staff, href)) == expected


@pytest.fixture
def rated_study(db: None) -> Study:
    """Make a study with a person whose answers are all alike, and three others."""
    study = make_study("flagged")
    alike = dict.fromkeys(("quality", "fluency", "diversity", "contingency", "empathy"), 2)
    for answers in (alike, *({"quality": 4 + n, "empathy": 3} for n in range(3))):
        make_rating(make_conversation(study, n_exchanges=3), **answers)
    refresh_flags(study)
    return study
