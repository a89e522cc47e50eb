"""Flags, raters and times of conversations, which no index holds: found and sorted by, against what was stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import make_conversation, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.search.fields import Numbers
from webapp.search.pagination import Listing, PageKey, page_of
from webapp.search.query import parse_query
from webapp.studies.models import Study

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BEGUN_ON_DAY = [0, 0, 30, 31, 32, 60]
MINUTES = [2.0, 7.5, None, 90.0, 0.5, 7.5]
FLAGS = [0, 2, 1, 0, 3, None]
RATERS = [1, None, 1, None, None, 2]


@pytest.fixture(scope="module")
def timed_study(rows_of_file: None) -> Study:
    """Make a study of six conversations, of which the last one was imported."""
    study = make_study("timed")
    for i, (day, minutes) in enumerate(zip(BEGUN_ON_DAY, MINUTES, strict=True)):
        chat = make_conversation(study, n_exchanges=3)
        begun = BEGIN + timedelta(days=day, seconds=i)
        ended = None if minutes is None else begun + timedelta(minutes=minutes)
        rows = Conversation.objects.filter(pk=chat.pk)
        if FLAGS[i] is None:
            rows.update(participant=None, slot=None)
            Rating.objects.bulk_create(
                Rating(conversation=chat, rater=name, rubric=study.rubric, submitted_at=begun)
                for name in ("ann", "bob", "ann", "")
            )
        elif RATERS[i] is not None:
            make_rating(chat, quality=3)
        for k in range(FLAGS[i] or 0):
            assert chat.task is not None
            TaskFlag.objects.create(task=chat.task, participant_id=chat.participant_id, name=flag_kinds.names()[k])
        rows.update(created_at=begun, ended_at=ended)
    return study


@pytest.fixture
def study(timed_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=timed_study.pk)


def listing(study: Study, line: str) -> Listing:
    asked = parse_query(line, Numbers(study_dimensions(study)), study=study)
    return Listing(Conversation.objects.filter(study=study), asked, study)


def found(study: Study, line: str) -> list[int]:
    """Return the numbers of the conversations that a line finds, read in pages of two."""
    rows = Conversation.objects.filter(study=study).order_by("created_at")
    number = {pk: i for i, pk in enumerate(rows.values_list("pk", flat=True))}
    list_of, after, order = listing(study, line), "", []
    while True:
        shown = page_of(list_of, after=after, size=2)
        order += [number[row.conversation.pk] for row in shown.rows]
        after = shown.after
        if not after:
            assert len(order) == list_of.count()
            return order


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sort:flags", [3, 0, 2, 1, 4, 5]),
        ("sort:-flags", [4, 1, 2, 3, 0, 5]),
        ("flags>0 sort:oldest", [1, 2, 4]),
        ("flags:0", [3, 0]),
        ("-flags>0", [5, 3, 0]),
        ("flags:1..2 sort:-flags", [1, 2]),
        ("sort:-raters", [5, 2, 0, 4, 3, 1]),
        ("raters>=2", [5]),
        ("raters:1", [2, 0]),
        ("sort:duration", [4, 0, 5, 1, 3, 2]),
        ("sort:-duration limit:3", [3, 5, 1]),
        ("duration:7.5", [5, 1]),
        ("duration<2", [4]),
        ("-duration<2", [5, 3, 2, 1, 0]),
        ("sort:started", [0, 1, 2, 3, 4, 5]),
        ("sort:-started", [5, 4, 3, 2, 1, 0]),
        ("sort:ended", [0, 1, 3, 4, 5, 2]),
        ("sort:-ended", [5, 4, 3, 1, 0, 2]),
        ("started:2026-01-31..2026-02-01", [3, 2]),
        ("started:2026-01-31", [2]),
        ("started>2026-01-31", [5, 4, 3]),
        ("started>=2026-01-31", [5, 4, 3, 2]),
        ("started<2026-01-31", [1, 0]),
        ("started<=2026-01-31", [2, 1, 0]),
        ("started:2026-02-02..", [5, 4]),
        ("-started:..2026-02-01", [5, 4]),
        ("ended>2026-01-31", [5, 4, 3]),
        ("-ended>2026-01-31", [2, 1, 0]),
        ("count.flags:3", [4]),
    ],
)
def test_a_line_finds(study: Study, line: str, expected: list[int]) -> None:
    assert found(study, line) == expected


def test_columns_tell_the_values_in_one_more_query(study: Study) -> None:
    numbers = Numbers(study_dimensions(study))
    columns = [numbers.get(name) for name in ("flags", "raters", "duration", "started", "exchanges")]
    list_of = listing(study, "sort:oldest")
    with CaptureQueriesContext(connection) as few:
        rows = page_of(list_of, [one for one in columns if one], size=2).rows
    with CaptureQueriesContext(connection) as many:
        rows = page_of(list_of, [one for one in columns if one]).rows
    assert len(many) <= len(few)
    told = [[value for _number, value in row.figures] for row in rows]
    begun = [BEGIN + timedelta(days=day, seconds=i) for i, day in enumerate(BEGUN_ON_DAY)]
    assert told == [list(one) for one in zip(FLAGS, RATERS, MINUTES, begun, [3] * 6, strict=True)]


def test_a_key_of_another_order_begins_anew(study: Study) -> None:
    by_time, by_flags = listing(study, "sort:ended"), listing(study, "sort:flags")
    for own, other in ((by_time, by_flags), (by_flags, by_time)):
        after = page_of(other, size=2).after
        assert PageKey.read(after) is not None
        first = [row.conversation.pk for row in page_of(own, after=after).rows]
        assert first == [row.pk for row in own.take(None, 10)]
