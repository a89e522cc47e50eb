"""What filters of replies find, and what a study may say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from tests.builders import make_study
from tests.tiny_models import save_classifier
from webapp.studies.models import Study
from webapp.studies.reply_filters.base import FilterInput, reply_filters
from webapp.studies.settings import StudyValues
from webapp.studies.versions import study_edit

NAMES = ("gpt2-small", "GPT-2 small", "openai-community/gpt2", "parrot", "ELIZA")


def found(name: str, text: str, **settings: Any) -> tuple[str, ...] | None:
    values = StudyValues.model_validate({"filtering": settings})
    got = reply_filters.get(name).find(text, FilterInput(values, NAMES))
    return None if got is None else got.words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("As an AI language model, I cannot.", ("As an AI language model",)),
        ("I am ChatGPT, made by OpenAI.", ("ChatGPT", "made by OpenAI")),
        ("I’m a large language model trained by Google!", None),  # words checked below
        ("My name is Claude.", ("My name is Claude",)),
        ("Well, Llama 3 is what I run on.", ("Llama 3",)),
        ("I use GPT-4o for this.", ("GPT-4o",)),
        ("This is gpt2-small speaking.", ("gpt2-small",)),
        ("It is openai-community/gpt2.", ("openai-community/gpt2",)),
        ("I am Eliza, how do you do?", ("I am Eliza",)),
        ("i'm   parrot", ("i'm parrot",)),
    ],
)
def test_a_reply_that_names_its_model(text: str, words: tuple[str, ...] | None) -> None:
    got = found("names_model", text)
    assert got == words if words else got


@pytest.mark.parametrize(
    "text",
    [
        "I love my parrot, and the llama at the zoo.",
        "My friend Claude is a Gemini.",
        "Three palms, 3 falcons and an apple.",
        "I am a student of language models of the city.",
        "The mistral blew all day; a metaphor.",
    ],
)
def test_everyday_words_are_no_names_of_models(text: str) -> None:
    assert found("names_model", text) is None


def test_phrases_are_found_literally_as_whole_words() -> None:
    listed = ["damn it", "C++", "坏", "a.b"]
    for text, words in {
        "DAMN  it, Damn it!": ("DAMN  it", "Damn it"),
        "c++ rocks": ("c++",),
        "很坏的": ("坏",),
        "aXb, goddamn it, damn item": None,
    }.items():
        assert found("phrases", text, filter_phrases=listed) == words, text


def test_a_classifier_of_ones_own_finds_what_it_gives_its_label(tmp_path: Path) -> None:
    save_classifier(tmp_path / "model")
    settings = {"filter_model": str(tmp_path / "model"), "filter_label": "neutral"}
    one = reply_filters.get("classifier")
    values = StudyValues.model_validate({"filtering": {**settings, "filter_from": 0.0}})
    assert one.unavailable_reason(values) is None
    got = one.find("hello you", FilterInput(values))
    assert got is not None
    assert "“neutral” a probability of 0." in got.reason
    beyond = {**settings, "filter_from": 1.0}
    assert one.find("hello you", FilterInput(StudyValues.model_validate({"filtering": beyond}))) is None
    assert one.identity(values).key != one.identity(StudyValues()).key
    wrong = StudyValues.model_validate({"filtering": {**settings, "filter_label": "neutrl"}})
    assert "did you mean neutral?" in str(one.unavailable_reason(wrong))


@pytest.mark.django_db
def test_a_filter_that_is_not_there_or_lacks_something_is_refused() -> None:
    study = make_study(state=Study.State.DRAFT)
    for actions, field, said in (
        ({"phrase": "mark"}, "reply_filters", "did you mean phrases?"),
        ({"phrases": "hide"}, "reply_filters", "mark"),
    ):
        with pytest.raises(ValidationError) as refused:
            study_edit(study=study, reply_filters=actions)
        assert said in str(refused.value.message_dict[field])
    study = study_edit(study=study, reply_filters={"phrases": "mark", "classifier": "withhold"})
    with pytest.raises(ValidationError) as refused:
        study_edit(study=study, state=Study.State.COLLECTING)
    assert {"filter_phrases", "filter_model"} <= set(refused.value.message_dict)
