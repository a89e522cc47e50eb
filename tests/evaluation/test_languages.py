"""Languages are told of conversations, not guessed from a few words."""

from __future__ import annotations

import pytest

from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from evaluation.languages import language_of
from evaluation.metrics.registry import metric_kinds, metric_list

GERMAN = [
    "Hallo, wie war dein Tag heute?",
    "Ganz gut, danke. Ich war mit dem Hund im Park, aber dann hat es geregnet.",
    "Oh nein, seid ihr nass geworden?",
]
SPANISH = ["¡Hola! ¿Qué tal el fin de semana?", "Muy bien, fui con mi hermana a la playa y comimos."]


@pytest.mark.parametrize(("texts", "code"), [(GERMAN, "de"), (SPANISH, "es")])
def test_a_conversation_tells_its_language(texts: list[str], code: str) -> None:
    assert language_of(texts) == code


def test_english_talk_reads_as_english() -> None:
    dialogues = corpus_read(EVERYDAY).dialogues
    told = [language_of(dialogue.turns) for dialogue in dialogues]
    assert {code for code in told if code is not None} == {"en"}
    assert sum(code == "en" for code in told) > 0.95 * len(told)


@pytest.mark.parametrize("texts", [[], ["", " "], ["ok", "lol nice"], ["👍" * 200], ["1234 " * 50]])
def test_where_little_is_said_nothing_is_told(texts: list[str]) -> None:
    assert language_of(texts) is None


def test_every_metric_of_the_project_says_for_which_languages_it_holds() -> None:
    """But for those whose model or file somebody chooses."""
    chosen = {"perplexity", "toxicity", "contradiction", "coherence", "word2vec"}
    chosen |= {"bart_score", "bleurt", "judge"}
    unsaid = {metric.name for metric in metric_list() if metric.languages is None}  # type: ignore[attr-defined]
    assert chosen <= set(metric_kinds.names())
    assert unsaid == chosen
