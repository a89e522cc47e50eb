"""A kind of check is a list in the settings; the builder, translations, steps and the datasheet follow from it."""

from typing import Annotated

import pytest
from pydantic import Field

from chatbots.validation import Many
from webapp.ratings.check_kinds import CHECK_KINDS, READERS
from webapp.studies.attention_checks import CheckCard, CheckEntry, Checking, check_lists
from webapp.studies.protocols.base import Step, usual_steps
from webapp.studies.settings import CHECK_SECTIONS, SECTIONS, StudyValues


class TypedWord(CheckEntry):
    """Word that a participant copies on a page of its own."""

    card = CheckCard("attention", "typed_word", "word", "Word to copy", is_step=True)
    word: str

    @property
    def texts(self) -> list[str]:
        return [self.word]

    @classmethod
    def describe(cls, n: int, section: object) -> str:
        return f"{n} words to copy"


class CheckingWithWords(Checking):
    typed_words: Annotated[Many[TypedWord], Field(max_length=5)] = ()


def test_the_lists_of_checks() -> None:
    lists = [check_lists(SECTIONS[section]) for section in CHECK_SECTIONS]
    assert {name: kind.card.group for kinds in lists for name, kind in kinds.items()} == {
        "quiz_questions": "quiz",
        "chat_checks": "attention",
        "training_pairs": "practice",
        "attention_checks": "attention",
    }


def test_a_new_list_is_read_everywhere() -> None:
    checking = CheckingWithWords(typed_words=(TypedWord(word="garden"), TypedWord(word="river")))
    values = StudyValues().model_copy(update={"checking": checking})
    [words] = [checks for checks in values.check_lists if checks.name == "typed_words"]
    assert (words.kind, words.section, words.description) == (TypedWord, checking, "2 words to copy")
    assert [text for entry in words.entries for text in entry.texts] == ["garden", "river"]
    assert [checks.description for checks in StudyValues().check_lists] == [""] * 4


def test_a_kind_with_a_step_is_asked_before_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.studies.protocols.base.Checking", CheckingWithWords)
    steps = [step.name for step in usual_steps(Step("chat", "Chat"))]
    assert steps == ["consent", "instructions", "quiz", "typed_word", "questions", "chat", "done"]


def test_every_kind_is_read_once() -> None:
    assert {kind.read for kind in CHECK_KINDS.values()} == set(READERS)
    assert len(READERS) == len(set(READERS))
