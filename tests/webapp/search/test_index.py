"""The index follows every write, whoever makes it, and forgets what is erased."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest
from django.db import connection

from tests.builders import exchange, make_conversation, make_rating, make_study
from webapp.conversations.models import Conversation, Turn
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.jobs.selectors.metrics import results_by_version
from webapp.ratings.models import Rating
from webapp.search.index import index_make
from webapp.search.models import Figure
from webapp.search.text_search import SearchWords, words_within
from webapp.studies.models import Dimension, Participant, Study
from webapp.studies.privacy import participants_erase

pytestmark = pytest.mark.django_db


def figures() -> dict[uuid.UUID, dict[str, float]]:
    """Return what the index holds."""
    result: dict[uuid.UUID, dict[str, float]] = defaultdict(dict)
    rows = Figure.objects.values_list("conversation_id", "series__kind", "series__name", "value")
    for pk, kind, name, value in rows:
        result[pk][f"{kind}.{name}"] = round(value, 5)
    return dict(result)


def counted() -> dict[uuid.UUID, dict[str, float]]:
    """Return what it should hold, counted from the data."""
    results: dict[uuid.UUID, dict[str, float]] = {}
    for chat in Conversation.objects.prefetch_related("turns", "ratings", "metric_results"):
        turns, ratings = list(chat.turns.all()), list(chat.ratings.all())
        one: dict[str, float] = {}
        if turns:
            one["count.turns"] = len(turns)
            one["count.replies"] = sum(turn.speaker == "bot" for turn in turns)
            one["count.up"] = sum(turn.vote == 1 for turn in turns)
            one["count.down"] = sum(turn.vote == -1 for turn in turns)
        if ratings:
            one["count.ratings"] = len(ratings)
            changed = max(rating.updated_at for rating in ratings)
            one["time.rated"] = round(changed.timestamp(), 5)
        for key in {key for rating in ratings for key in rating.answers}:
            values = [rating.answers[key] for rating in ratings if key in rating.answers]
            one[f"rating.{key}"] = sum(values) / len(values)
            one |= spread_of(key, values)
        means = [mean for rating in ratings if (mean := mean_of(rating)) is not None]
        if means:
            one["rating.mean_of_all"] = round(sum(means) / len(means), 5)
            one |= spread_of("mean_of_all", means)
        costs = [turn.cost for turn in turns if turn.cost is not None]
        if costs:
            one["count.cost"] = round(sum(costs), 5)
        if chat.metric_results.all():
            one["count.results"] = len(chat.metric_results.all())
        for result in chat.metric_results.all():
            for name, value in result.values.items():
                if value is not None:
                    one[f"metric.{name}"] = value
        if one:
            results[chat.pk] = one
    return results


def spread_of(key: str, given: list[float]) -> dict[str, float]:
    """Return how far two raters differ on average, where there are two."""
    gaps = [abs(a - b) for a, b in combinations(given, 2)]
    return {f"spread.{key}": round(sum(gaps) / len(gaps), 5)} if gaps else {}


def mean_of(rating: Rating) -> float | None:
    """Return the mean of a rating's answers, higher better, unless one is missing."""
    dimensions = list(rating.rubric.dimensions.all())
    if len(dimensions) < 2 or any(dimension.key not in rating.answers for dimension in dimensions):
        return None
    answers = [
        sum(dimension.scale) - rating.answers[dimension.key] if dimension.reversed else rating.answers[dimension.key]
        for dimension in dimensions
    ]
    return sum(answers) / len(answers)


def results_tallied() -> dict[tuple[int, int, str], int]:
    """Return the tally of results: study, version, language and how many."""
    counts: Counter[tuple[int, int, str]] = Counter()
    for study in Study.objects.all():
        for version, language, n in results_by_version(study=study, run=None):
            counts[study.pk, version, language] = n
    return dict(counts)


def results_there() -> dict[tuple[int, int, str], int]:
    """Return what it should hold, counted from the data."""
    rows = MetricResult.objects.filter(conversation__state="completed")
    return dict(Counter(rows.values_list("conversation__study", "metric", "language").order_by()))


def found_by(*words: str, exact: bool = False) -> set[uuid.UUID]:
    """Return the conversations in which all of this is said."""
    asked = [SearchWords(word, exact) for word in words]
    return set(Conversation.objects.filter(*map(words_within, asked)).values_list("pk", flat=True))


@pytest.fixture
def study() -> Study:
    """Make a study of three conversations, two of them rated, one of these by two people, one measured."""
    study = make_study("indexed")
    first, second, third = (make_conversation(study, n_exchanges=n) for n in (1, 2, 3))
    exchange(second, "I like tomatoes", "Do you cook? I don't cook.")
    make_rating(third, quality=2, fluency=6)
    rating = third.ratings.get()
    other = Rating(
        conversation=third,
        rubric=rating.rubric,
        answers={"quality": 5, "fluency": 2},
        comment="It kept to the weather.",
        submitted_at=rating.submitted_at,
    )
    Rating.objects.bulk_create([other])
    version = MetricVersion.objects.create(key="k", name="made", version="1")
    MetricResult.objects.create(conversation=first, metric=version, values={"made_bot": 0.25, "made_user": None})
    return study


def of(study: Study, number: int) -> Conversation:
    return list(study.conversations.order_by("created_at"))[number]


def nothing(_study: Study) -> None:
    pass


def turn_edited(study: Study) -> None:
    Turn.objects.filter(conversation=of(study, 1), index=5).update(text="Say it again.", vote=1)


def costs_known(study: Study) -> None:
    Turn.objects.filter(conversation__study=study, speaker="bot").update(cost=0.25)
    Turn.objects.filter(conversation=of(study, 1), index=1).update(cost=None)
    Turn.objects.filter(conversation=of(study, 2), index=3).delete()


def costs_gone(study: Study) -> None:
    costs_known(study)
    Turn.objects.filter(conversation__study=study).update(cost=None)


def scale_turned(study: Study) -> None:
    Dimension.objects.filter(rubric=study.rubric, key="fluency").update(reversed=True)


def votes_gone(study: Study) -> None:
    Turn.objects.filter(conversation__study=study).update(vote=0)


def turns_deleted(study: Study) -> None:
    Turn.objects.filter(conversation=of(study, 1)).delete()


def rating_changed(study: Study) -> None:
    rating = of(study, 2).ratings.exclude(comment="").get()
    rating.answers, rating.comment = {"quality": 7, "fluency": 1}, "Dull."
    rating.save()


def rated_at_the_end_of_a_second(study: Study) -> None:
    """SQLite rounds to thousandths, and would take this for the next second."""
    late = datetime(2026, 3, 1, 12, 30, 15, 999_700, tzinfo=UTC)
    of(study, 2).ratings.update(updated_at=late)


def ratings_deleted(study: Study) -> None:
    of(study, 2).ratings.all().delete()


def measured_again(study: Study) -> None:
    MetricResult.objects.update(values={"made_user": 3})


def left_out_now(study: Study) -> None:
    MetricResult.objects.filter(conversation=of(study, 0)).update(language="de", values={})


def withdrawn(study: Study) -> None:
    Conversation.objects.filter(pk=of(study, 0).pk).update(state="withdrawn")


def withdrawn_and_measured(study: Study) -> None:
    Conversation.objects.filter(study=study).update(state="withdrawn")
    version = MetricVersion.objects.create(key="k2", name="other", version="1")
    MetricResult.objects.create(conversation=of(study, 1), metric=version)
    Conversation.objects.filter(study=study).update(state="completed")
    MetricResult.objects.create(conversation=of(study, 2), metric=version, language="fr")


def results_deleted(_study: Study) -> None:
    MetricResult.objects.all().delete()


def conversation_deleted(study: Study) -> None:
    of(study, 2).delete()


def study_deleted(study: Study) -> None:
    study.conversations.all().delete()
    study.delete()


def person_erased(study: Study) -> None:
    participants_erase(participants=Participant.objects.filter(pk=of(study, 2).participant_id))


def made_anew(_study: Study) -> None:
    index_make()


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        turn_edited,
        votes_gone,
        costs_known,
        costs_gone,
        scale_turned,
        turns_deleted,
        rating_changed,
        rated_at_the_end_of_a_second,
        ratings_deleted,
        measured_again,
        left_out_now,
        withdrawn,
        withdrawn_and_measured,
        results_deleted,
        study_deleted,
        conversation_deleted,
        person_erased,
        made_anew,
    ],
)
def test_numbers_follow_the_data(study: Study, change: Callable[[Study], None]) -> None:
    Conversation.objects.filter(study=study).update(state="completed")
    assert set(results_there().values()) == {1}
    change(study)
    assert figures() == counted()
    assert results_tallied() == results_there()


def test_words_are_found_in_turns_and_comments(study: Study) -> None:
    second, third = of(study, 1), of(study, 2)
    assert found_by("cook") == found_by("COOK", exact=True) == {second.pk}
    assert found_by("tomat") == {second.pk}
    assert found_by("tomat", exact=True) == set()
    assert found_by("tomatoes", "cook") == {second.pk}, "said in two turns"
    assert found_by("tomatoes do", exact=True) == set(), "one turn ends and another begins"
    assert found_by("I don't cook", exact=True) == {second.pk}
    assert found_by("weather") == {third.pk}


def test_words_that_are_gone_are_not_found(study: Study) -> None:
    turn_edited(study)
    assert found_by("cook") == set()
    assert found_by("again") == {of(study, 1).pk}
    rating_changed(study)
    assert found_by("weather") == set()
    assert found_by("dull") == {of(study, 2).pk}
    ratings_deleted(study)
    assert found_by("dull") == set()
    turns_deleted(study)
    assert found_by("tomatoes") == set()


def test_an_erased_person_leaves_no_word_in_the_index(
    study: Study, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[Any]]
) -> None:
    exchange(of(study, 0), "My name is Quetzal", "Hello Quetzal")
    assert found_by("quetzal")
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(pk=of(study, 0).participant_id))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT document::text FROM reading_conversationwords")
            assert not [row for (row,) in cursor.fetchall() if "quetzal" in row]
        else:
            cursor.execute("SELECT block FROM reading_turnwords_data")
            assert not [row for (row,) in cursor.fetchall() if b"quetzal" in bytes(row)]


@pytest.mark.parametrize(
    "said", ["see www.example.org/tomato", "<b>tomato</b>", "well-tomato-known", "TOMATO’s", "x_tomato"]
)
def test_signs_only_separate_words(said: str) -> None:
    chat = make_conversation(make_study("signs"))
    exchange(chat, said, "yes")
    assert found_by("tomato", exact=True) == {chat.pk}


@pytest.mark.parametrize("said", ["我喜欢做饭", "ฉันชอบทำอาหาร"])
def test_words_without_spaces_are_found_inside(said: str) -> None:
    chat = make_conversation(make_study("spaceless"))
    exchange(chat, said, "yes")
    assert found_by(said[2:4]) == {chat.pk}


@pytest.mark.postgres
@pytest.mark.skipif(connection.vendor != "postgresql", reason="vectors are PostgreSQL's")
def test_a_turn_that_is_added_leaves_what_making_the_index_leaves(study: Study) -> None:
    def documents() -> dict[uuid.UUID, str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT conversation_id, document::text FROM reading_conversationwords")
            return dict(cursor.fetchall())

    chats = [make_conversation(study) for _ in range(3)]
    for text in ("hello you", "an address@example.org and <b>", "hello again, hello", "…"):
        for chat in chats:
            exchange(chat, text, f"so {text}?" if text != "…" else "")
    make_rating(chats[0])
    Rating.objects.update(comment="it was dull")
    Conversation.objects.update(state=Conversation.State.OPEN)
    exchange(chats[0], "after the comment", "oh")
    Turn.objects.filter(conversation=chats[1], speaker="bot").update(vote=1)
    said, kept = documents(), figures()
    assert {chat.pk for chat in chats} <= set(said)
    index_make()
    assert documents() == said
    assert figures() == kept == counted()
