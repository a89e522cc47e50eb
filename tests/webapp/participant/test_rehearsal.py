"""Opinions of scripted participants: low for poor bots, high for others, all over the scale."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest

from evaluation.languages import language_of
from webapp.participant.rehearsal import Impression, OutsideDoors, ScriptedParticipant
from webapp.participant.rehearsal.scripts import script_in
from webapp.participant.rehearsal.ways import _CHECK
from webapp.studies.examples import study_example
from webapp.studies.languages import LANGUAGES

CHOICES = [str(value) for value in range(1, 8)]
QUESTIONS = ["quality", "fluency", "diversity", "contingency", "empathy"]
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


def answers_of(heard: list[str], seed: int) -> dict[str, int]:
    person = ScriptedParticipant(OutsideDoors("http://127.0.0.1", "s"), lines=[SAID], seed=seed)
    person.said, person.heard = SAID, heard
    return {question: int(person.answer(question, CHOICES)) for question in QUESTIONS}


def test_opinions_spread_over_the_scale_and_tell_bots_apart() -> None:
    answers = {bot: [answers_of(heard, seed) for seed in range(30)] for bot, heard in CHATS.items()}
    quality = {bot: mean(given["quality"] for given in all_) for bot, all_ in answers.items()}
    assert quality["parrot"] < quality["generic"] < quality["rules"] < quality["talker"]
    assert quality["parrot"] < 2.5
    assert quality["talker"] > 5.8
    counts = Counter(given["quality"] for all_ in answers.values() for given in all_)
    assert set(counts) == set(range(1, 8))
    assert max(counts.values()) < 0.4 * counts.total()


def test_questions_are_answered_differently() -> None:
    same = [len(set(answers_of(CHATS["rules"], seed).values())) == 1 for seed in range(30)]
    assert sum(same) < 10


def test_an_impression_is_of_what_was_heard() -> None:
    parrot = Impression.of(SAID, SAID)
    assert (parrot.listening, parrot.new, parrot.asking) == (0, 1, 0)
    assert Impression.of(SAID, ["Why?"] * 5).asking == 1
    assert parrot.about("an unusual question") == parrot.overall


@pytest.mark.parametrize("language", LANGUAGES)
def test_they_write_the_language_of_the_study(language: str) -> None:
    """And read in it: reasons are long enough, and a check says what to choose."""
    script = script_in(language)
    assert language_of([line for talk in script.lines[:6] for line in talk]) == language
    assert all(line.strip() for talk in script.lines for line in talk)
    assert len(script.comment.split()) >= 3
    [check] = study_example("survey", language).attention.attention_checks
    told = _CHECK.search(check.response)
    assert told is not None
    assert told[1] == "2"
