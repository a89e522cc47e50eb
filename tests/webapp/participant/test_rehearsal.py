"""Opinions of scripted participants: low for poor bots, high for others, all over the scale."""

from __future__ import annotations

from collections import Counter
from statistics import mean, stdev

import pytest

from evaluation.languages import language_of
from webapp.core.language import LANGUAGES
from webapp.participant.simulated import ScriptedParticipant, StudyClient
from webapp.participant.simulated.answers import script_in
from webapp.studies.examples import study_example

CHOICES = [str(value) for value in range(1, 8)]
QUESTIONS = ["quality", "fluency", "diversity", "contingency", "empathy"]
DOORS = StudyClient("http://127.0.0.1", "s")
SAID = [
    "hello there",
    "i went to the sea yesterday",
    "do you like swimming",
    "my brother has a boat",
    "we caught two fish",
]
CHATS = {
    "parrot": SAID,
    "generic": ["I see.", "Okay.", "I see.", "Go on.", "Okay."],
    "rules": [
        "How do you do. What would you like to talk about?",
        "Tell me more about the sea.",
        "Why do you ask?",
        "Tell me more about your family.",
        "Why do you say that you caught two fish?",
    ],
    "talker": [
        "Hello, how nice to meet you, what have you been doing this week?",
        "That sounds lovely, was the water warm enough for you to swim in it?",
        "I do like it, although pools smell a little too much of chlorine for me.",
        "A boat must be a lot of work, does he take it out every weekend?",
        "Two is enough for dinner, I suppose you fried them in butter right away?",
    ],
}


def person_of(seed: int) -> ScriptedParticipant:
    return ScriptedParticipant(DOORS, lines=[SAID], seed=seed)


def answers_of(heard: list[str], seed: int, choices: list[str] = CHOICES) -> dict[str, int]:
    person = person_of(seed)
    person.said, person.heard = SAID, heard
    return {question: int(person.answer(question, choices)) for question in QUESTIONS}


GOOD = {
    "talker": CHATS["talker"],
    "novelist": [3 * f"{reply} " for reply in CHATS["talker"]],
    "asker": [f"{reply} And you?" for reply in CHATS["talker"]],
}
PEOPLE = range(60)


def test_opinions_spread_over_the_scale_and_tell_bots_apart() -> None:
    answers = {bot: [answers_of(heard, seed) for seed in PEOPLE] for bot, heard in CHATS.items()}
    quality = {bot: mean(given["quality"] for given in all_) for bot, all_ in answers.items()}
    assert quality["parrot"] < quality["generic"] < quality["rules"] < quality["talker"]
    assert quality["parrot"] < 3
    assert 4.5 < quality["talker"] < 6
    counts = Counter(given["quality"] for all_ in answers.values() for given in all_)
    assert set(counts) == set(range(1, 8))
    assert max(counts.values()) < 0.3 * counts.total()


@pytest.mark.parametrize("bots", [["talker"], ["novelist"], list(GOOD)])
@pytest.mark.parametrize("n_points", [4, 5, 7, 101])
def test_good_bots_alone_do_not_crowd_the_top(bots: list[str], n_points: int) -> None:
    """Whatever the scale: several points are used, the best by a minority, and people differ."""
    choices = [str(point) for point in range(n_points)]
    shares = [int(answers_of(GOOD[bot], seed, choices)["quality"]) / (n_points - 1) for bot in bots for seed in PEOPLE]
    assert 0.5 < mean(shares) < 0.85
    assert stdev(shares) > 0.15
    assert shares.count(1) < 0.4 * len(shares)
    assert len(set(shares)) >= min(4, n_points - 1)


def test_people_who_compare_differ_too() -> None:
    """Two good replies get all three answers; a good one mostly wins over an echo, on whichever side it stands."""
    good = GOOD["talker"][:2]
    given = [person_of(seed).prefer("hi", good, "quality", ["a", "same", "b"]) for seed in PEOPLE]
    assert min(Counter(given)[side] for side in ("a", "same", "b")) > len(PEOPLE) / 6
    for heard, better in (([good[0], "hi"], "a"), (["hi", good[0]], "b")):
        given = [person_of(seed).prefer("hi", heard, "quality", ["a", "same", "b"]) for seed in PEOPLE]
        assert len(PEOPLE) / 2 < given.count(better) < len(PEOPLE)


def test_people_have_favourites_that_others_share_in_part() -> None:
    chosen = Counter(one for seed in PEOPLE for one in person_of(seed).favourites(QUESTIONS, 2))
    assert chosen.total() == 2 * len(PEOPLE)
    assert len(chosen) == len(QUESTIONS)
    assert max(chosen.values()) > 1.5 * min(chosen.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_they_write_the_language_of_the_study(language: str) -> None:
    """Their reasons are long enough, and a check says what to choose."""
    script = script_in(language)
    assert language_of([line for talk in script.lines[:6] for line in talk]) == language
    assert all(line.strip() for talk in script.lines for line in talk)
    assert len(script.comment.split()) >= 3
    [check] = study_example("survey", language).attention.attention_checks
    assert "2" in check.response
