"""METEOR of 2007 by NLTK, with the part of WordNet that ships with Confab."""

import gzip

import pytest

from evaluation.data.items import ReplyInContext
from evaluation.metrics.meteor_nltk import MeteorNltk, ShippedWordNet, shipped_wordnet
from evaluation.metrics.text_cache import TextCache


def meteor(response, reference):
    [score] = MeteorNltk().scored([ReplyInContext((), response, reference)], TextCache())["meteor_nltk"]
    return score


def by_hand(matches, chunks, n_response, n_reference):
    """Lavie and Agarwal (2007), section 2: α = .9, β = 3, γ = .5."""
    precision, recall = matches / n_response, matches / n_reference
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return (1 - 0.5 * (chunks / matches) ** 3) * mean


@pytest.mark.parametrize(
    ("response", "reference", "matches", "chunks"),
    [
        ("the cat sat on the mat", "the cat sat on the mat", 6, 1),
        ("The cat sat", "on the cat", 2, 1),  # case does not count
        ("we went to the sea today", "today we walked to the sea", 5, 3),
        ("cats sleep", "a cat sleeps", 2, 1),  # by stems
        ("I like my car", "I like my auto", 4, 1),  # by synonyms
        ("cars", "an auto", 1, 1),  # a synonym of a stem
    ],
)
def test_the_score_is_the_formulas(response, reference, matches, chunks):
    expected = by_hand(matches, chunks, len(response.split()), len(reference.split()))
    assert meteor(response, reference) == pytest.approx(expected)


def test_nothing_in_common_is_0_and_a_missing_reference_undefined():
    assert meteor("dogs ran", "we like tea") == 0
    assert meteor("dogs ran", None) != meteor("dogs ran", None)


def test_words_find_their_base_forms_by_wordnets_rules(tmp_path):
    path = tmp_path / "synonyms.tsv.gz"
    path.write_bytes(gzip.compress(b"buy\tpurchase\nbox\tcase\ncity\ttown\n"))
    words = ShippedWordNet(path)
    results = {
        word: [lemma.name() for synset in words.synsets(word) for lemma in synset.lemmas()]
        for word in ("buying", "boxes", "cities", "dog")
    }
    assert results == {"buying": ["buy", "purchase"], "boxes": ["box", "case"], "cities": ["city", "town"], "dog": []}


def test_it_needs_no_java_and_its_identity_names_the_synonyms(monkeypatch):
    monkeypatch.setenv("PATH", "")
    metric = MeteorNltk()
    assert metric.unavailable_reason() is None
    assert metric.identity.name == "meteor_nltk"
    assert len(metric.params["synonyms"]) == 16
    assert any(
        "automobile" in [lemma.name() for lemma in synset.lemmas()] for synset in shipped_wordnet().synsets("car")
    )
