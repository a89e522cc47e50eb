"""The line that asks for conversations: what it finds, also by what no index holds, and what cannot be read."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from evaluation.data.ratings import RatingDimension
from tests.builders import exchange, make_conversation, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.dashboard.conversation_list import examples
from webapp.jobs.models import MetricResult
from webapp.jobs.selectors.metrics import metrics_find
from webapp.jobs.services.fits import metric_version_record
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.search.chat_selection import line_asked
from webapp.search.fields import Numbers, Unreadable, line_of, terms_of
from webapp.search.models import Series
from webapp.search.pagination import Listing, PageKey, page_of, position_of
from webapp.search.query import SearchQuery, parse_query
from webapp.studies.models import Study

QUALITIES = [4, 2, 7, 2, None, 5]
REPEATS = [0.1, 0.5, 0.9, 0.4, 0.8, None]


@pytest.fixture(scope="module")
def asked_study(rows_of_file: None) -> Study:
    """Make a study of six conversations: rated, measured, with words, one of them scripted."""
    study = make_study("asked")
    version = metric_version_record(metric=metrics_find(["repetition"])[0])
    for number, (quality, repeats) in enumerate(zip(QUALITIES, REPEATS, strict=True)):
        chat = make_conversation(study, n_exchanges=3, is_synthetic=number == 5)
        if number % 2:
            exchange(chat, "I like tomatoes", f"Do you cook {number}?")
        if quality is not None:
            make_rating(chat, quality=quality)
        values = {"conversation_repetition_bot": repeats}
        MetricResult.objects.create(conversation=chat, metric=version, values=values)
    return study


@pytest.fixture
def study(asked_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=asked_study.pk)


def read(study: Study, line: str) -> SearchQuery:
    return parse_query(line, Numbers(study_dimensions(study)), bots=study.bots)


def found(study: Study, line: str) -> list[int]:
    """Return the numbers of the conversations that a line finds, in its order."""
    rows = Conversation.objects.filter(study=study)
    number = {pk: i for i, pk in enumerate(rows.order_by("created_at").values_list("pk", flat=True))}
    of_study = Listing(rows, read(study, line), study)
    assert of_study.count() == len(of_study.take(None, 10))
    order = [row.pk for row in of_study.take(None, 10)]
    assert order == [row.pk for row in Listing(rows, read(study, line)).take(None, 10)]
    return [number[pk] for pk in order]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", [5, 4, 3, 2, 1, 0]),
        ("sort:oldest", [0, 1, 2, 3, 4, 5]),
        ("sort:-newest", [0, 1, 2, 3, 4, 5]),
        ("tomatoes", [5, 3, 1]),
        ("-tomatoes", [4, 2, 0]),
        ("tomato COOK", [5, 3, 1]),
        ('"do you cook 3"', [3]),
        ("“do you cook 3”", [3]),
        ("quality>4", [5, 2]),
        ("quality>=4 quality<7", [5, 0]),
        ("quality:2", [3, 1]),
        ("quality=2", [3, 1]),
        ("quality:2..4", [3, 1, 0]),
        ("quality:..2", [3, 1]),
        ("quality:5..*", [5, 2]),
        ("-quality>4", [4, 3, 1, 0]),
        ("Quality>4", [5, 2]),
        ("rating.quality>4", [5, 2]),
        ("any.quality:7", [2]),
        ("repetition>0.3 sort:quality", [3, 1, 2, 4]),
        ("repetition>0.3 sort:quality limit:2", [3, 1]),
        ("metric.conversation_repetition_bot>=0.8 sort:-repetition", [2, 4]),
        ("conversation_repetition_bot<=.1", [0]),
        ("sort:-quality", [2, 5, 0, 3, 1, 4]),
        ("exchanges>3 sort:exchanges", [5, 3, 1]),
        ("turns:6", [4, 2, 0]),
        ("ratings:1 is:rated", [5, 3, 2, 1, 0]),
        ("is:unrated", [4]),
        ("is:scripted", [5]),
        ("is:unrated,scripted", [5, 4]),
        ("up>0", []),
        ("state:open sort:oldest", [4]),
        ("source:import", []),
        ("flag:fast", []),
        ("rater:nobody", []),
    ],
)
def test_a_line_finds(study: Study, line: str, expected: list[int]) -> None:
    assert found(study, line) == expected


def test_bots_ids_and_raters(study: Study) -> None:
    rows = list(Conversation.objects.filter(study=study).select_related("bot"))
    for row in rows:
        others = {row.bot.bot_id for row in rows} - {row.bot.bot_id}
        line = f"bot:{row.bot.bot_id} id:{row.pk.hex[:12]}"
        assert [row.pk for row in Listing(Conversation.objects.all(), read(study, line)).rows] == [row.pk]
        for other in others:
            assert found(study, f"bot:{other} id:{row.pk}") == []
    assert len(found(study, "bot:eliza,parrot")) == 6
    rating = Rating.objects.filter(conversation__study=study).first()
    assert len(found(study, f"rater:{rating.participant_id}")) == 1


def test_a_sample_is_drawn_by_its_seed(study: Study) -> None:
    drawn = found(study, "sample:3 seed:1")
    assert len(drawn) == 3
    assert drawn == found(study, "sample:3 seed:1")
    assert set(drawn) <= set(found(study, "sample:4 seed:1")), "a larger sample holds the smaller"
    assert any(found(study, f"sample:3 seed:{seed}") != drawn for seed in range(2, 8))
    assert set(found(study, "tomatoes sample:2")) < {1, 3, 5}
    assert found(study, "sample:6 sort:quality") == found(study, "sort:quality")


@pytest.mark.parametrize(
    ("line", "why", "example"),
    [
        ("repitition>0.3", "no field “repitition”", "repetition>0.3"),
        ("bott>0.3", "“bott” here. To search", '"bott>0.3"'),
        ("coast>60", "“coast” here. To search", '"coast>60"'),
        ("sort:-flag", "Did you mean flags", "sort:flags"),
        ("sort:rater", "Did you mean raters", "sort:raters"),
        ("started:soon", "“soon” is not a date", "started:2026-01-01..2026-02-01"),
        ("ended>2026-02-30", "“2026-02-30” is not a date", "ended>2026-01-01"),
        ("ended>9999-12-31", "“9999-12-31” is not a date", "ended>2026-01-01"),
        ("started:2026-02-01..2026-01-01", "before it begins", "started:2026-01-01..2026-02-01"),
        ("started:..", "no start or end", "started:2026-01-01..2026-02-01"),
        ("flags:some", "“some” is not a number", "flags:2..4"),
        ("bott:eliza", "Did you mean bot", "bot:eliza"),
        ("sort:qualty", "no field “qualty”", "sort:quality"),
        ("quality>much", "“much” is not a number", "quality>3"),
        ("quality:2..x", "“x” is not a number", "quality:2..4"),
        ("quality:nan", "“nan” is not a number", "quality:2..4"),
        ("quality:4..2", "ends before it begins", "quality:2..4"),
        ("quality:..", "no start or end", "quality:2..4"),
        ("quality>", "no value after “>”", "quality>3"),
        ("bot:elisa", "no bot “elisa”", "bot:eliza"),
        ("bot>eliza", "has no order", "bot:eliza"),
        ("state:finished", "no state “finished”", "state:"),
        ("is:good", "“is:good” is not a filter", "is:"),
        (
            "is:nothing",
            "commented, filtered, noted, rated, reported, scripted, starred, tagged, unrated, voted.",
            "is:",
        ),
        ("state:odd", "completed, ended, excluded, failed, open, withdrawn.", "state:"),
        ("flag:slow", "Available: ", "flag:"),
        ("created:2026", "“created” here. To search", '"created:2026"'),
        ("limit:10001", "the maximum is 10000", "limit:10000"),
        ("sample:999999", "the maximum is 10000", "sample:10000"),
        ("limit:many", "needs a whole number", "limit:20"),
        ("sample:0", "would show nothing", "sample:20"),
        ("any.turns>3", "not a rating", "turns>3"),
        ("id:xyz", "No conversation id starts", "id:7c1f"),
        ('say "hello', "not closed", "sort:quality"),
        ('say"hello"', "A space is missing", "sort:quality"),
        ("zzqqxxww:3", "no field “zzqqxxww”", '"zzqqxxww:3"'),
        ("%", "no letter or digit", '"100 %"'),
        ("word " * 300, "the maximum is 1000", "sort:quality"),
    ],
)
def test_a_line_that_cannot_be_read_says_why_and_what_would_work(
    study: Study, line: str, why: str, example: str
) -> None:
    with pytest.raises(Unreadable) as refused:
        read(study, line)
    assert why in refused.value.reason
    assert example in refused.value.example
    if refused.value.example != line:
        read(study, refused.value.example)


def test_examples_name_only_what_the_study_has(study: Study) -> None:
    dimensions = [RatingDimension("relevance", "Relevance", 0, 1)]
    Series.objects.create(kind=Series.Kind.RATING, name="relevance", metric=0)
    numbers = Numbers(dimensions)
    with pytest.raises(Unreadable) as refused:
        parse_query('say "hello', numbers)
    assert "sort:relevance" in refused.value.example
    first, parts = examples(numbers, dimensions, ["eliza", "parrot"])
    assert first == "bot:eliza"
    assert {"relevance:0..0.5", "sort:-relevance"} <= set(parts)
    for line in (refused.value.example, *parts):
        parse_query(line, numbers, bots=["eliza", "parrot"])
    # Without ratings and metrics there is still something to ask by.
    for line in examples(Numbers([]), [], [])[1]:
        parse_query(line, Numbers([]))


@pytest.mark.parametrize(
    "line",
    [
        '-tag:"two words" quality>=3 "a b" word -other sort:-quality',
        "a.b",
        "don't x:1..2",
        'tag:"<odd>" -rater:">9" quality>="=3"',
    ],
)
def test_a_line_is_written_as_it_is_read(line: str) -> None:
    assert line_of(terms_of(line)) == line
    assert terms_of(line_of(terms_of(line))) == terms_of(line)


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("bot=eliza&state=open", "bot:eliza state:open"),
        ("rated=no&answer=3", "is:unrated any.quality:3"),
        ("answer=3&question=fluency", "any.fluency:3"),
        ("answer=x&state=x", ""),
        ("words=hello  you", '"hello you"'),
        ("sort=low:quality", "sort:quality"),
        ("sort=longest", "sort:-exchanges"),
        ("q=a sort:quality&sort=-fluency", "a sort:-fluency"),
        ("q=quality:1..2&number=quality&low=3&high=", "quality:3.."),
        ("q=bot:eliza -bot:x&bot=parrot", "-bot:x bot:parrot"),
    ],
)
def test_addresses_of_before_are_read_as_lines(address: str, line: str) -> None:
    assert line_asked(QueryDict(address), "quality") == line


def test_a_rating_comes_before_a_metric_of_its_name(study: Study) -> None:
    numbers = Numbers([RatingDimension("repetition", "Repetition", 1, 7)])
    by_name = {name: numbers.get(name) for name in ("repetition", "rating.repetition")}
    assert {number.kind for number in by_name.values() if number} == {"rating"}
    metric = numbers.get("metric.conversation_repetition_bot")
    assert metric.kind == "metric"


def test_a_conversation_knows_its_place(study: Study) -> None:
    rows = Conversation.objects.filter(study=study)
    listing = Listing(rows, read(study, "turns>0 sort:-quality"), study)
    order = listing.take(None, 10)
    for i, row in enumerate(order):
        around = (i + 1, order[i - 1].pk if i else None, order[i + 1].pk if i + 1 < len(order) else None)
        for shown in (None, page_of(listing, size=4)):
            place = position_of(listing, row, shown)
            assert (place.number, place.before, place.following) == around
    other = Listing(rows, read(study, "tomatoes"), study)
    assert position_of(other, rows.order_by("created_at")[0]) is None


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
def timed(timed_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=timed_study.pk)


def listing(study: Study, line: str) -> Listing:
    query = parse_query(line, Numbers(study_dimensions(study)), study=study)
    return Listing(Conversation.objects.filter(study=study), query, study)


def found_in(study: Study, line: str) -> list[int]:
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
def test_a_line_of_computed_values_finds(timed: Study, line: str, expected: list[int]) -> None:
    assert found_in(timed, line) == expected


def test_columns_tell_the_values_in_one_more_query(timed: Study) -> None:
    numbers = Numbers(study_dimensions(timed))
    columns = [numbers.get(name) for name in ("flags", "raters", "duration", "started", "exchanges")]
    list_of = listing(timed, "sort:oldest")
    with CaptureQueriesContext(connection) as few:
        rows = page_of(list_of, [column for column in columns if column], size=2).rows
    with CaptureQueriesContext(connection) as many:
        rows = page_of(list_of, [column for column in columns if column]).rows
    assert len(many) <= len(few)
    told = [[value for _number, value in row.figures] for row in rows]
    begun = [BEGIN + timedelta(days=day, seconds=i) for i, day in enumerate(BEGUN_ON_DAY)]
    assert told == [list(one) for one in zip(FLAGS, RATERS, MINUTES, begun, [3] * 6, strict=True)]


def test_a_key_of_another_order_begins_anew(timed: Study) -> None:
    by_time, by_flags = listing(timed, "sort:ended"), listing(timed, "sort:flags")
    for own, other in ((by_time, by_flags), (by_flags, by_time)):
        after = page_of(other, size=2).after
        assert PageKey.read(after) is not None
        first = [row.conversation.pk for row in page_of(own, after=after).rows]
        assert first == [row.pk for row in own.take(None, 10)]
