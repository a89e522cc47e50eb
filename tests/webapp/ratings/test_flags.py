"""Kinds of flags: who has each, at its threshold, and the sentence that explains it."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from chatbots.registry import UnknownName
from webapp.ratings.flag_selectors import without_read
from webapp.ratings.flags.answers import fewest
from webapp.ratings.flags.base import EndedTask, Message, MessageTyping, StudyWork, clock, flag_kinds, percent
from webapp.ratings.flags.copied_messages import folded
from webapp.ratings.flags.machine_score import _by_participant, _count_signals, measure_signals, score_of

_ME, _OTHER = uuid.uuid4(), uuid.uuid4()


def work_of(*said: Sequence[str | Message], people: Sequence[Any] = (), prescribed: Sequence[str] = ()) -> StudyWork:
    """Return work whose tasks hold these messages; each of another person unless said otherwise."""
    tasks = {
        number: [m if isinstance(m, Message) else Message(m) for m in messages] for number, messages in enumerate(said)
    }
    work = StudyWork.__new__(StudyWork)
    who = list(people) or [uuid.uuid4() for _ in said]
    work.__dict__.update(
        study=None,
        done=[EndedTask(number, who[number], "", "rated", 100.0) for number in tasks],
        messages=tasks,
        prescribed_texts=list(prescribed),
        counting_tasks=set(tasks),
        _typed={1: None} if any(m.typed for all_ in tasks.values() for m in all_) else {},
    )
    return work


def words(name: str, work: StudyWork) -> dict[int, str]:
    """Return what a kind says of each task that has it."""
    kind = flag_kinds.get(name)
    result = kind.find(work)
    assert result.of or result.why_none in kind.reasons
    return {task: kind.explain(figures, result.about) for task, figures in result.tasks.items()}


def test_every_kind_has_words_and_a_name_of_its_own() -> None:
    assert flag_kinds.names() == [
        *(
            "fast",
            "inaccurate_labels",
            "inconsistent",
            "machine",
            "machine_score",
            "missed_check",
            "missed_gold",
            "pasted",
            "repeated",
        ),
        *("same_answer", "short", "translated"),
    ]
    assert all(kind.title and kind.rule and kind.reasons for kind in flag_kinds)
    assert without_read("pasted, fast,fast") == ("fast", "pasted")
    assert without_read("") == ()
    with pytest.raises(UnknownName, match="fast"):
        without_read("fats")


def test_shares_are_never_rounded_to_nobody_or_everybody() -> None:
    assert [percent(n, 1000) for n in (0, 1, 500, 999, 1000)] == ["0 %", "<1 %", "50 %", ">99 %", "100 %"]
    assert clock(59.6) == "1:00"


def test_repeated_are_long_messages_said_again_or_by_others() -> None:
    mine = "I like to walk in the woods with my dog."
    shared = "As an assistant I enjoy helping people every day."
    assert folded("I'd LIKE, it!") == folded("i d like it")
    work = work_of(
        [mine, mine.upper(), f"{mine}!", "yes", "yes"],
        [shared, shared.replace(" ", "  "), "something else entirely, of my own"],
        [shared, "what I think about it is quite different", "and again I tell you another thing"],
        [mine + " And my cat.", "yes", "no", "yes", "no", "yes"],
    )
    assert words("repeated", work) == {
        0: "2 of 5 messages repeat an earlier message of the participant.",
        1: (
            "1 of 3 messages repeat an earlier message of the participant, and 2 were also written by other "
            "participants of the study."
        ),
    }
    twice = work_of([mine], [mine, "and more"], people=[_ME, _ME])
    assert words("repeated", twice) == {}, "one message said again is not two"


def test_messages_that_the_studys_texts_prescribe_are_not_repeated() -> None:
    first, second = "Good morning, I should like to book a room.", "It is for two people, from Monday on."
    said = [[first, second.lower(), "A sentence of my own, which nobody else has."]] * 2
    assert measure_signals(work_of(*said))[0]["identical"] == (3, 3)
    work = work_of(*said, prescribed=["Begin with:", f"Begin with “{first}” Then say: {second}"])
    assert "identical" not in measure_signals(work)[0], "one message is left, and a signal takes two"
    assert words("repeated", work_of(*said)) != {}
    assert words("repeated", work_of(*said[:1] * 3, prescribed=[first, second])) == {}


def test_short_is_beside_what_is_usual_in_the_study() -> None:
    usual = [["x" * 40] * 3 for _ in range(9)]
    assert words("short", work_of(*usual)) == {}, "nine tasks are no distribution"
    assert words("short", work_of(*usual, ["ok"] * 3, ["ok"] * 2, ["y" * 10] * 3)) == {
        9: "3 messages, half of them with at most 2 characters; 91 % of participants wrote longer ones, usually of 40."
    }


def test_pasted_needs_few_keys_and_a_paste_or_the_chatbots_own_words() -> None:
    text = "A rather long message about the weather in the mountains."
    reply = f"So you say: {text}"
    pasted = Message(text, typed=MessageTyping(3, 1, 0, 900))
    typed = Message(text, typed=MessageTyping(60, 0, 4, 20_000))
    with_link = Message(text, typed=MessageTyping(50, 1, 0, 20_000))
    copied = Message(text, reply)
    assert words("pasted", work_of([pasted, pasted, typed], [typed, with_link], [copied, copied])) == {
        0: "2 of 3 messages were pasted.",
        2: "2 of 3 messages only repeat the chatbot's last reply.".replace("of 3", "of 2"),
    }


def test_a_machine_is_suspected_of_long_messages_that_nobody_typed() -> None:
    long, longer = "y" * 100, "y" * 220
    slow = Message(long, typed=MessageTyping(104, 0, 4, 20_000))
    quick = Message(long, typed=MessageTyping(100, 0, 0, 3_000))
    even = Message(longer, typed=MessageTyping(220, 0, 0, 60_000))
    by_words = Message(longer, typed=MessageTyping(44, 0, 0, 60_000))
    pasted = Message(long, typed=MessageTyping(1, 1, 0, 400))
    result = words(
        "machine", work_of([quick, even], [slow, slow], [by_words, by_words], [pasted, pasted, slow, slow, slow])
    )
    assert list(result) == [0], "and two of five are not half"
    assert result[0].startswith(
        "1 of 2 long messages were typed faster than people can type. 1 of 2 long messages were typed without a "
        "single deletion. "
    )
    kind = flag_kinds.get("machine")
    assert kind.find(work_of(["a"])).why_none == "not_counted"
    assert "consent" in str(kind.reasons["not_counted"])


def test_so_many_alike_answers_are_rare_by_chance() -> None:
    assert [fewest(points) for points in (2, 3, 5, 7, 101)] == [8, 6, 4, 4, 4]


def test_the_machine_score_counts_signals_of_those_that_could_be_measured() -> None:
    long = "This message is long enough for a statement about how it was typed by whom."
    quick = Message(long, typed=MessageTyping(75, 0, 0, 2_000))
    slow = Message(long.replace("This", "That"), typed=MessageTyping(75, 0, 0, 20_000))
    pasted = Message("Short", typed=MessageTyping(1, 1, 0, 400))
    plain = Message("Typed by nobody", typed=None)
    work = work_of(
        *([quick, quick, quick], [slow, Message("ok"), slow], [pasted, slow, pasted], [plain, plain], [slow])
    )
    counts = measure_signals(work)
    assert counts[0] == {"quick": (3, 3), "pasted": (0, 3), "identical": (2, 3), "uncounted": (0, 3)}
    assert counts[3] == {"uncounted": (2, 2)}
    assert counts[4] == {}
    assert [score_of(counts[task]) for task in range(5)] == [2, 1, 1, 1, 0]
    kind = flag_kinds.get("machine_score")
    assert kind.explain({"signals": counts[0]}, {}) == (
        "Score 2 of 4 measured signals: 3 of 3 long messages were typed faster than 15 characters a second; 2 of 3 "
        "long messages repeat an earlier one or one by another participant."
    )


def test_shares_of_signals_count_participants_and_not_their_tasks() -> None:
    plain = Message("Typed by nobody", typed=None)
    work = work_of([plain, plain], [plain, plain], [plain], people=[_ME, _ME, _OTHER])
    numbers = _count_signals(_by_participant(work, measure_signals(work)).values())
    assert numbers["uncounted"] == (1, 1)
    assert numbers["quick"] == (0, 0)
