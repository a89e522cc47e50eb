"""Training examples, the vocabulary that they are coded by, and where weights begin."""

import json
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

from chatbots.corpora.dialogues import CorpusError, Dialogue
from chatbots.corpora.vocabulary import EOS, PAD, SPECIAL_TOKENS, Vocabulary, VocabularyError, tokenise, tokeniser_get
from chatbots.encoders.word_vectors import WORD_DIMENSION, word_vectors
from chatbots.models.batch import DialogueBatch
from chatbots.training.data import Windows, data_prepare, sentences_fit, windows_make
from chatbots.training.loop import embed_words, initialise_model
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
        data_prepare(config(tmp_path, data={"corpora": [corpora[0], {**corpora[1], "repeat": n}]})) for n in (1, 3)
    )
    assert len(thrice.train) == len(once.train) + 2 * 8
    assert len(thrice.test) == len(once.test)
    assert once.vocabulary.words == thrice.vocabulary.words
    assert once.digest != thrice.digest
    assert once.n_dialogues == thrice.n_dialogues == {"train": 16, "validation": 2, "test": 2}


def test_the_vocabulary_is_of_the_training_text_alone(tmp_path):
    dialogues = [[f"word{i} here", "yes"] for i in range(20)]
    result = data_prepare(config(corpus(tmp_path, dialogues)))
    assert sum(word.startswith("word") for word in result.vocabulary.words) == 16


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
        ([["a b c d", "e f g h"]] * 9, VocabularyError, "no word occurs at least 99 times"),
    ],
)
def test_what_there_is_nothing_to_learn_from(tmp_path, dialogues, error, message):
    changes = {"data": {"min_count": 99}} if error is VocabularyError else {}
    expected = config(corpus(tmp_path, dialogues), **changes)
    if error is None:
        assert data_prepare(expected).train.n_targets > 0
        return
    with pytest.raises(error, match=message):
        data_prepare(expected)


def test_words_that_are_all_unknown_can_be_learnt_from(tmp_path):
    dialogues = [["the the", "the the"]] * 8 + [["zzx", "qqy"]] * 12
    expected = config(corpus(tmp_path, dialogues), data={"max_words": 5})
    result = data_prepare(expected)
    assert len(result.vocabulary) == 5
    assert result.train.coverage < 1


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


WORDS1 = tokeniser_get("words-1")


def numbered(n: int, words: int = 1) -> Dialogue:
    """Make a dialogue of n different utterances."""
    return Dialogue(tuple(" ".join([f"u{i}"] * words) for i in range(n)))


DIALOGUES = [Dialogue(tuple(f"d{d} t{t}" + " w" * (7 * d * t % 5) for t in range(d + 1))) for d in range(1, 13)]
VOCABULARY = Vocabulary.build((tokenise(t) for d in DIALOGUES for t in d.turns), min_count=1)


def texts_of(windows: Windows) -> list[list[str]]:
    return [[windows.texts[i] for i in row if i >= 0] for row in windows.utterances]


def conversations(batches: list[DialogueBatch]) -> list[list[list[int]]]:
    """Return the ids of the batches' utterances, without padding."""
    return [
        [ids[:n].tolist() for ids, n in zip(row, lengths, strict=True) if n]
        for batch in batches
        for row, lengths in zip(batch.utterances, batch.lengths, strict=True)
    ]


@pytest.mark.parametrize(
    ("n", "expected"), [(1, []), (2, ["01"]), (4, ["0123"]), (5, ["0123", "34"]), (8, ["0123", "3456", "67"])]
)
def test_sliding_windows_share_one_utterance(n: int, expected: list[str]) -> None:
    windows = windows_make([numbered(n)], VOCABULARY, WORDS1, n_utterances=4, mode="slide")
    assert texts_of(windows) == [[f"u{i}" for i in window] for window in expected]
    assert windows.n_targets == n - 1


def test_the_first_utterances_of_a_long_dialogue() -> None:
    windows = windows_make([numbered(25), numbered(1)], VOCABULARY, WORDS1)
    assert texts_of(windows) == [[f"u{i}" for i in range(10)]]
    assert windows.n_targets == 9


def test_long_utterances_keep_their_beginning_and_end() -> None:
    vocabulary = Vocabulary.build([["u0", "u1"]], min_count=1)
    windows = windows_make([numbered(2, words=50)], vocabulary, WORDS1)
    (batch,) = windows.batches(4, 0, 0)
    assert batch.utterances[0].tolist() == [[4] * 29 + [EOS], [5] * 29 + [EOS]]


def test_a_batch_is_what_padding_one_by_one_gives() -> None:
    windows = windows_make(DIALOGUES, VOCABULARY, WORDS1, max_tokens=6)
    for chosen, batch in zip(windows.order(4, 1, 2), windows.batches(4, 1, 2), strict=True):
        ids = [[VOCABULARY.ids(tokenise(t)) for t in texts_of(windows)[w]] for w in chosen]
        expected = DialogueBatch.from_ids(ids, max_tokens=6)
        assert torch.equal(batch.utterances, expected.utterances)
        assert torch.equal(batch.lengths, expected.lengths)


def test_an_epoch_reads_every_window_once_in_an_order_of_its_own() -> None:
    windows = windows_make(DIALOGUES, VOCABULARY, WORDS1, n_utterances=3, mode="slide")
    epochs = [conversations(list(windows.batches(5, 7, epoch))) for epoch in (0, 1)]
    expected = sorted([*VOCABULARY.ids(tokenise(t)), EOS] for w in texts_of(windows) for t in w)
    for epoch in epochs:
        assert len(epoch) == len(windows)
        assert sorted(chain.from_iterable(epoch)) == expected
    assert epochs[0] != epochs[1]
    assert epochs[0] == conversations(list(windows.batches(5, 7, 0)))
    assert epochs[0] != conversations(list(windows.batches(5, 8, 0)))


def test_training_goes_on_in_the_middle_of_an_epoch() -> None:
    windows = windows_make(DIALOGUES, VOCABULARY, WORDS1, n_utterances=3, mode="slide")
    whole = list(windows.batches(4, 3, 5))
    assert len(whole) == windows.n_batches(4) > 3
    for start in (0, 2, len(whole)):
        rest = list(windows.batches(4, 3, 5, start=start))
        assert conversations(rest) == conversations(whole[start:])


@dataclass
class Values:
    row: dict[str, int]
    emotion: np.ndarray | None
    sentence: np.ndarray | None


def test_targets_follow_their_utterances() -> None:
    windows = windows_make(DIALOGUES, VOCABULARY, WORDS1, n_utterances=4)
    # Rows in another order than the windows' texts, and more of them; the value tells the text.
    row = {text: i for i, text in enumerate(["another", *reversed(windows.texts)])}
    told = np.array([[len(t), len(tokenise(t))] for t in row], np.float64)
    for batch, chosen in zip(
        windows.batches(4, 0, 0, targets=Values(row, told, None)), windows.order(4, 0, 0), strict=True
    ):
        assert batch.sentence is None
        assert batch.emotion.dtype == torch.float32
        for values, texts in zip(batch.emotion, [texts_of(windows)[w] for w in chosen], strict=True):
            expected = [[len(t), len(tokenise(t))] for t in texts]
            assert values[: len(texts)].tolist() == expected
            assert not values[len(texts) :].any()


def test_a_turn_without_words_cuts_the_dialogue() -> None:
    dialogue = Dialogue(("hi", "there", "--", "so", "😀", "שלום", "end"))
    windows = windows_make([dialogue], VOCABULARY, WORDS1)
    assert texts_of(windows) == [["hi", "there"], ["so", "😀", "שלום", "end"]]
    assert windows.n_unreadable == 1
    paper = windows_make([dialogue], VOCABULARY, tokeniser_get("paper-2019"))
    assert texts_of(paper) == [["hi", "there"]]
    assert paper.n_unreadable == 3


@pytest.mark.parametrize("dialogues", [[], [Dialogue(("alone",))], [Dialogue(("--", "hi", "--"))]])
def test_nothing_to_learn_gives_no_batch(dialogues: list[Dialogue]) -> None:
    windows = windows_make(dialogues, VOCABULARY, WORDS1)
    assert (len(windows), windows.n_targets, windows.n_batches(4)) == (0, 0, 0)
    assert list(windows.batches(4, 0, 0)) == []
    assert np.isnan(windows.coverage)


def test_the_embedding_begins_with_word_vectors():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "tea", "zzxqy", "coffee", "mechanic"))
    embedding = nn.Embedding(len(vocabulary), WORD_DIMENSION, padding_idx=PAD)
    drawn = embedding.weight.detach().clone()
    assert embed_words(embedding, vocabulary) == 3
    rows = embedding.weight.detach()
    kept = [0, 1, 2, 3, 5]
    assert torch.equal(rows[kept], drawn[kept])
    tea = word_vectors().lookup("tea")
    cosine = float(np.dot(rows[4].numpy(), tea) / np.linalg.norm(rows[4].numpy()) / np.linalg.norm(tea))
    assert cosine > 0.999
    cos = nn.functional.cosine_similarity
    assert cos(rows[4], rows[6], dim=0) > cos(rows[4], rows[7], dim=0)
    assert 0.5 < rows[4].norm() / drawn[4].norm() < 2


def test_the_bias_begins_with_the_shares_of_the_words(tmp_path):
    expected = config(corpus_write(tmp_path), "vhred", start={"word_counts": True})
    data = data_prepare(expected)
    model = initialise_model(expected, data, tmp_path / "out")
    shares = torch.softmax(model.decoder.project.bias.detach(), 0).numpy()
    counts = np.zeros(len(data.vocabulary))
    for row in data.train.utterances:
        for number in row[1:][row[1:] >= 0]:
            for i in data.train.ids[number][: data.train.lengths[number]]:
                counts[i] += 1
    np.testing.assert_allclose(shares, (counts + 0.5) / (counts + 0.5).sum(), rtol=1e-4)
    assert torch.equal(model.bow.project.bias, model.decoder.project.bias)


def test_listening_opens_the_context_and_widens_the_first_state(tmp_path):
    folder = corpus_write(tmp_path)
    plain, open_ = (
        initialise_model(wanted, data_prepare(wanted), tmp_path / "out")
        for wanted in (config(folder, "vhcr", start={"listening": on}) for on in (False, True))
    )
    C = plain.config.C
    assert plain.context.rnn.bias_hh_l0[C : 2 * C].tolist() == [2.0] * C
    assert open_.context.rnn.bias_hh_l0[C : 2 * C].tolist() == [-1.0] * C
    assert torch.equal(open_.context.rnn.bias_hh_l0[:C], plain.context.rnn.bias_hh_l0[:C])
    assert torch.equal(open_.decoder.start[0].weight, plain.decoder.start[0].weight * 4)
    assert torch.equal(open_.encoder.rnn.bias_hh_l0, plain.encoder.rnn.bias_hh_l0)
