"""The list of conversations: search, order, totals, and the reader that goes through it."""

import html as markup
import re
from collections import Counter
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import exchange, make_conversation, make_rating, make_study
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.ratings.models import Rating
from webapp.search import pagination
from webapp.studies.models import Study

QUALITIES = [4, 2, 7, 2, None, 5]
"""Ratings of six conversations, oldest first; one is not rated."""


@pytest.fixture(scope="module")
def listed_study(rows_of_file: None) -> Study:
    """Make a study of six conversations of different lengths, made one after the other."""
    study = make_study("list")
    for number, quality in enumerate(QUALITIES):
        conversation = make_conversation(study, n_exchanges=3)
        for _more in range(number % 2):
            exchange(conversation, f"Do you like the Eiffel tower, visitor {number}?", "<b>Yes</b>")
        if quality is not None:
            make_rating(conversation, quality=quality, fluency=8 - quality)
    return study


@pytest.fixture
def study(listed_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=listed_study.pk)


def listed(staff: Client, study: Study, **query: str) -> pagination.Page:
    address = reverse("dashboard:study_conversations", args=[study.key])
    answer = staff.get(address, query)
    assert answer.status_code == 200
    return answer.context["page"]


def in_time(study: Study) -> list[Conversation]:
    return list(study.conversations.order_by("created_at", "pk"))


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", [5, 4, 3, 2, 1, 0]),
        ("oldest", [0, 1, 2, 3, 4, 5]),
        # Of two with the same rating the newer comes first; one without a rating comes last.
        ("low:quality", [3, 1, 0, 5, 2, 4]),
        ("high:quality", [2, 5, 0, 3, 1, 4]),
        ("high:fluency", [3, 1, 0, 5, 2, 4]),
        ("longest", [5, 3, 1, 4, 2, 0]),
        ("shortest", [4, 2, 0, 5, 3, 1]),
    ],
)
@pytest.mark.parametrize("size", [2, 50])
def test_every_order_goes_through_all_pages(
    staff: Client, study: Study, monkeypatch: pytest.MonkeyPatch, sort: str, expected: list[int], size: int
) -> None:
    monkeypatch.setitem(pagination.page_of.__kwdefaults__, "size", size)
    place = {conversation.pk: number for number, conversation in enumerate(in_time(study))}
    seen: list[int] = []
    after = ""
    for _page in range(4):
        page = listed(staff, study, sort=sort, after=after)
        assert page.total == 6
        seen += [place[row.conversation.pk] for row in page.rows]
        after = page.after
        if not after:
            break
    assert seen == expected


def test_words_are_found_in_turns_and_comments(staff: Client, study: Study) -> None:
    page = listed(staff, study, words="  eiffel   TOWER ")
    assert page.total == 3
    assert [(piece.text, piece.is_hit) for piece in page.rows[0].excerpt] == [
        ("Do you like the ", False),
        ("Eiffel tower", True),
        (", visitor 5?", False),
    ]

    rating = Rating.objects.filter(conversation=in_time(study)[2]).get()
    rating.comment = "It kept repeating 100% of what I said."
    rating.save()
    page = listed(staff, study, words="100%")
    assert [row.conversation for row in page.rows] == [rating.conversation]
    assert [piece.text for piece in page.rows[0].excerpt if piece.is_hit] == ["100"]
    # Signs that mean something to a database are only signs.
    assert listed(staff, study, words="e%el tow_r").total == 0


def test_what_was_found_is_marked_and_escaped(staff: Client, study: Study) -> None:
    address = reverse("dashboard:study_conversations", args=[study.key])
    page = flat(staff.get(address, {"words": "<b>yes"}).content.decode())
    assert "&lt;<mark>b&gt;Yes</mark>&lt;/b&gt;" in page
    assert "<b>Yes" not in page
    assert "<strong>3</strong> of 6<" in page


def test_the_reader_goes_on_in_the_order_of_the_list(staff: Client, study: Study) -> None:
    rows = in_time(study)
    query = "sort=low%3Aquality"
    pane = staff.get(f"{reverse('dashboard:conversation', args=[rows[0].pk])}?{query}", follow=True).context["pane"]
    assert str(rows[1].pk) in pane.before
    assert str(rows[5].pk) in pane.following
    last = staff.get(f"{reverse('dashboard:conversation', args=[rows[4].pk])}?{query}", follow=True).context["pane"]
    assert str(rows[2].pk) in last.before
    assert last.following == ""


def test_the_reader_has_the_ratings_before_the_turns(staff: Client, study: Study) -> None:
    conversation = in_time(study)[0]
    Rating.objects.filter(conversation=conversation).update(comment="<i>dull</i>")
    page = staff.get(reverse("dashboard:conversation", args=[conversation.pk]), follow=True).content.decode()
    assert page.index("bench-rating") < page.index("data-turns")
    assert markup.escape("<i>dull</i>") in page


def test_queries_do_not_grow_with_the_order(staff: Client, study: Study, django_assert_max_num_queries: object) -> None:
    address = reverse("dashboard:study_conversations", args=[study.key])
    with django_assert_max_num_queries(38):  # type: ignore[operator]
        staff.get(address, {"sort": "high:quality", "words": "message"})


def test_a_reversed_question_says_that_low_is_good_wherever_its_answers_stand_as_given(
    staff: Client, study: Study
) -> None:
    study.rubric.dimensions.filter(key="quality").update(reversed=True)
    title = study.rubric.dimensions.get(key="quality").title
    address = reverse("dashboard:study_conversations", args=[study.key])
    assert f"<span>{title} (lower is better) <b>" in staff.get(address).content.decode()
    orders = staff.get(address).context["orders"]
    assert ("quality", f"{title} (lower is better), lowest first") in orders
    rated = in_time(study)[0]
    page = staff.get(reverse("dashboard:conversation", args=[rated.pk]), follow=True).content.decode()
    assert f"<dt>{title} (lower is better)</dt>" in page
    assert "4 of 7" in page


def test_a_mark_of_the_spread_leads_to_the_conversations_with_that_answer(staff: Client, study: Study) -> None:
    study.rubric.dimensions.filter(key="fluency").update(reversed=True)
    address = reverse("dashboard:study_why", args=[study.key])
    for question in ("quality", "fluency"):
        sections = staff.get(address, {"part": "agreement", "dimension": question}).context["sections"]
        [figure] = next(section.content.figures for section in sections if section.is_open)
        links = [markup.unescape(link) for link in re.findall(r'href="([^"]+any\.[^"]*)"', figure.wide)]
        counts: Counter[UUID] = Counter()
        for link in links:
            for row in staff.get(link).context["page"].rows:
                counts[row.conversation.pk] += 1
                answer = row.conversation.ratings.get().answers[question]
                assert f"any.{question}:{answer}" in link
                assert f"bot:{row.conversation.bot.bot_id}" in link
        # Every rated conversation stands behind one mark.
        assert counts == dict.fromkeys(
            study.conversations.filter(ratings__isnull=False).values_list("pk", flat=True), 1
        )


def test_the_spread_of_a_number_is_of_what_the_rest_of_the_line_asks_for(staff: Client, study: Study) -> None:
    address = reverse("dashboard:study_spread", args=[study.key])

    def drawn(**query: str) -> tuple[str, list[tuple[str, str]]]:
        text = staff.get(address, query).content.decode()
        return text, re.findall(r'height="([\d.]+)" data-low="(\d+)"', text)

    _text, bars = drawn(of="quality", q="quality:2..4 sort:quality limit:1")
    assert bars == [("40", "2"), ("20", "4"), ("20", "5"), ("20", "7")]
    _text, bars = drawn(of="quality", q="exchanges>3 quality>3")
    assert bars == [("40", "2"), ("20", "5")]
    assert "No matching conversation" in drawn(of="quality", q="fluency>9")[0]
    assert staff.get(address, {"of": "nonsense"}).status_code == 404
