"""The comparison's pictures: files that stand alone and show the numbers of the page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.urls import reverse

from tests.webapp.dashboard.test_compare import LEVELS, study_of
from webapp.bots.models import BotVersion
from webapp.conversations.models import Turn
from webapp.results import cache
from webapp.studies.models import Study

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def compared(db: None, tmp_path: Path) -> Study:
    """Make a study of four bots, the first two alike, whose last is a control."""
    study = study_of(tmp_path, LEVELS)
    BotVersion.objects.filter(bot_id="delta").update(is_control=True)
    return study


def page_of(staff: Client, query: str = "") -> Any:
    return staff.get(reverse("dashboard:study_compare", args=["c"]) + query)


def picture_of(staff: Client, page: Any, what: str) -> tuple[Any, ElementTree.Element]:
    """Return the answer that the page's link leads to, and the drawing in it."""
    html = page.content.decode()
    [href] = re.findall(rf'href="([^"]*{what}\.svg[^"]*)"', html)
    answer = staff.get(unescape(href))
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/svg+xml; charset=utf-8"
    return answer, ElementTree.fromstring(answer.content)


def texts(root: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def values(root: ElementTree.Element, marks: list[ElementTree.Element]) -> list[float]:
    """Return at which values marks stand, by the labels of the axis."""
    ticks = [
        (float(one.get("x", "")), float(one.text or ""))
        for one in of_class(root, "tick")
        if "middle" in one.get("class", "")
    ]
    (x0, low), (x1, high) = ticks[0], ticks[-1]
    return [low + (float(m.get("x", "")) + 1.5 - x0) / (x1 - x0) * (high - low) for m in marks]


def test_the_leaderboard_has_the_numbers_of_the_page(staff: Client, compared: Study) -> None:
    page = page_of(staff)
    answer, root = picture_of(staff, page, "board")
    assert 'filename="c-quality.svg"' in answer["Content-Disposition"]
    board = page.context["board"]
    said = texts(root)
    for row in board.rows:
        for word in (row.bot.title, row.ranks, row.n, f"{row.mean} {row.ends}"):
            assert word in said
    ticks = of_class(root, "mean-tick")
    assert values(root, ticks) == pytest.approx([row.place.mean.mean for row in board.rows], abs=0.02)
    assert ["hollow" in tick.get("class", "") for tick in ticks] == [False, False, False, True]
    assert len(of_class(root, "interval")) == 4
    assert len(of_class(root, "joins")) == 2, "one bar, over the two rows of alpha and beta"
    assert root.findtext(f"{SVG}title") == f"{compared.name}: Quality, 1 to 7"
    assert board.lead in (root.findtext(f"{SVG}desc") or "")


def test_a_picture_needs_nothing_from_elsewhere(staff: Client, compared: Study) -> None:
    page = page_of(staff, "?against=alpha&against=delta")
    for what in ("board", "against"):
        answer, root = picture_of(staff, page, what)
        text = answer.content.decode().replace("http://www.w3.org/2000/svg", "")
        for outside in ("http", "href", "var(", "url(", "@import", "<script"):
            assert outside not in text
        known = set(re.findall(r"\.([a-z][a-z0-9-]*)", root.findtext(f"{SVG}style") or ""))
        used = {name for one in root.iter() for name in one.get("class", "").split()}
        assert used <= known | {"tile"}, "a class without a style would be drawn black"
        size = [float(root.get(name, "")) for name in ("width", "height")]
        for one in of_class(root, "bot") + of_class(root, "mean-tick"):
            assert 0 <= float(one.get("x", one.get("cx", "0"))) <= size[0]


def test_the_picture_shows_what_the_page_was_asked_for(staff: Client, compared: Study) -> None:
    page = page_of(staff, "?by=fluency&zoom=1&bots=gamma&bots=beta")
    answer, root = picture_of(staff, page, "board")
    assert 'filename="c-fluency.svg"' in answer["Content-Disposition"]
    assert {"beta", "gamma"} < set(texts(root))
    assert "alpha" not in texts(root)
    assert of_class(root, "strip-shown")
    assert "2 bots not shown here" in (root.findtext(f"{SVG}desc") or "")


def test_two_bots_on_all_questions(staff: Client, compared: Study) -> None:
    page = page_of(staff, "?against=delta&against=alpha")
    answer, root = picture_of(staff, page, "against")
    against = page.context["against"]
    assert 'filename="c-alpha-delta.svg"' in answer["Content-Disposition"]
    said = texts(root)
    assert said[:2] == ["alpha", "delta"]
    bold = [one.text for one in of_class(root, "strong")]
    for one in against.questions:
        assert f"{one.gap} {one.ends}" in said
        assert (one.title in bold) == one.is_apart
    assert len(of_class(root, "between")) == len(against.questions)
    assert against.lead in (root.findtext(f"{SVG}desc") or "")


def test_votes_have_a_picture_with_the_numbers_of_the_page(staff: Client, compared: Study) -> None:
    replies = Turn.objects.filter(conversation__study=compared, speaker="bot")
    for bot_id, n in (("alpha", 5), ("delta", 2)):
        of_bot = replies.filter(conversation__bot__bot_id=bot_id)
        of_bot.update(vote=1)
        replies.filter(pk__in=list(of_bot.values_list("pk", flat=True)[:n])).update(vote=-1)
    page = page_of(staff, "?by=votes")
    answer, root = picture_of(staff, page, "board")
    assert 'filename="c-votes.svg"' in answer["Content-Disposition"]
    votes = page.context["votes"]
    for row in votes.rows:
        assert {row.bot.title, row.n, f"{row.share} {row.ends}"} <= set(texts(root))
    ticks = of_class(root, "mean-tick")
    shares = [100 * row.votes.share for row in votes.rows if row.votes.share is not None]
    assert values(root, ticks) == pytest.approx(shares, abs=0.3)
    assert len(shares) == 2
    assert votes.lead in (root.findtext(f"{SVG}desc") or "")


@pytest.mark.parametrize(
    ("what", "query"),
    [
        ("board", "?by=beauty"),
        ("against", "?against=alpha"),
        ("against", ""),
        ("board", "?by=votes"),
    ],
)
def test_where_there_is_no_picture_the_page_says_why(staff: Client, compared: Study, what: str, query: str) -> None:
    answer = staff.get(reverse(f"dashboard:study_compare_{what}", args=["c"]) + query)
    assert answer.status_code == 302
    assert answer["Location"].startswith(reverse("dashboard:study_compare", args=["c"]))
    assert answer["Location"].endswith(query)


def test_many_bots_with_long_names_stay_inside(
    staff: Client, db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "DIRECT_BOTS", 20)
    levels = {f"a bot with quite a long name, number {n} <&>": 2 + n / 4 for n in range(18)}
    study_of(tmp_path, levels, n=4)
    page = page_of(staff)
    _answer, root = picture_of(staff, page, "board")
    cut = [text for text in texts(root) if text.startswith("a bot with")]
    assert len(cut) == 18
    assert all(text.endswith("…") for text in cut)
    assert len(of_class(root, "tile")) == 10, "slots after the eighth have tiles"
