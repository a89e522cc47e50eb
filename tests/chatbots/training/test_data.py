"""From corpora to windows: repeated corpora, sentences that fit, and corpora that give nothing."""

from __future__ import annotations

import json

import pytest

from chatbots.corpora.dialogues import CorpusError
from chatbots.corpora.vocabulary import VocabularyError, tokeniser_get
from chatbots.training.data import data_prepare, sentences_fit
from tests.chatbots.training.builders import DATA, config, corpus_write


def corpus(folder, dialogues, name="small.jsonl"):
    lines = (json.dumps({"turns": turns}) for turns in dialogues)
    (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_a_repeated_corpus_weighs_in_training_alone(tmp_path):
    corpus_write(tmp_path, 10)
    corpus(tmp_path, [["what is rain", "rain is water"]] * 10, "rain.jsonl")
    corpora = [{"path": "small.jsonl"}, {"path": "rain.jsonl", "repeat": 3}]
    once, thrice = (
        data_prepare(config(tmp_path, data={"corpora": [corpora[0], {**corpora[1], "repeat": n}]}))
        for n in (1, 3)
    )
    assert len(thrice.train) == len(once.train) + 2 * 8
    assert len(thrice.test) == len(once.test)
    assert once.vocabulary.words == thrice.vocabulary.words
    assert once.digest != thrice.digest
    assert once.n_dialogues == thrice.n_dialogues == {"train": 16, "validation": 2, "test": 2}


def test_the_vocabulary_is_of_the_training_text_alone(tmp_path):
    dialogues = [[f"word{i} here", "yes"] for i in range(20)]
    found = data_prepare(config(corpus(tmp_path, dialogues)))
    assert sum(word.startswith("word") for word in found.vocabulary.words) == 16


@pytest.mark.parametrize(
    ("n", "kept"),
    [
        (9, "Hello there. How are you? Fine!"),
        (8, "Hello there. How are you?"),
        (7, "Hello there. How are you?"),
        (6, "Hello there."),
        (1, "Hello there."),
    ],
)
def test_whole_sentences_that_fit(n, kept):
    text = "Hello there. How are you? Fine!"
    assert sentences_fit(text, n, tokeniser_get("words-1")) == kept


@pytest.mark.parametrize(
    ("dialogues", "error", "message"),
    [
        ([["hello"], ["bye"], ["so"]], CorpusError, "the train split of 1 dialogues has no reply"),
        ([["hi", "ho"]], CorpusError, "the validation split of 0 dialogues has no reply"),
        ([["😀 🎉", "😀"]] * 9, None, ""),
        ([["مرحبا كيف حالك", "بخير شكرا"]] * 9, None, ""),
        ([["a b c d", "e f g h"]] * 9, VocabularyError, "no word occurs 99 times"),
    ],
)
def test_what_there_is_nothing_to_learn_from(tmp_path, dialogues, error, message):
    changes = {"data": {"min_count": 99}} if error is VocabularyError else {}
    wanted = config(corpus(tmp_path, dialogues), **changes)
    if error is None:
        assert data_prepare(wanted).train.n_targets > 0
        return
    with pytest.raises(error, match=message):
        data_prepare(wanted)


def test_words_that_are_all_unknown_can_be_learnt_from(tmp_path):
    dialogues = [["the the", "the the"]] * 8 + [["zzx", "qqy"]] * 12
    wanted = config(corpus(tmp_path, dialogues), data={"max_words": 5})
    found = data_prepare(wanted)
    assert len(found.vocabulary) == 5
    assert found.train.coverage < 1


def test_contexts_hold_what_an_input_only_model_reads(tmp_path, monkeypatch):
    from chatbots.training import ei
    from tests.chatbots.training.builders import fake_embeddings

    monkeypatch.setattr(ei, "embeddings_cached", fake_embeddings)
    corpus_write(tmp_path)
    plain = data_prepare(config(tmp_path, ei={"w_emo": 1}))
    reading = data_prepare(config(tmp_path, ei={"input_only": True}))
    texts = [[reading.first_exchanges()[0][0]]]
    assert plain.contexts(texts).emotion is None
    batch = reading.contexts(texts)
    row = reading.targets.row[texts[0][0]]
    assert batch.emotion[0, 0].tolist() == pytest.approx(reading.targets.emotion[row].tolist())
    assert batch.sentence.shape[-1] == reading.targets.sentence.shape[1]
    assert DATA["max_tokens"] == 12
