"""Where weights begin: word vectors in the embedding, word counts in the output's bias."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from chatbots.corpora.vocabulary import PAD, SPECIAL_TOKENS, Vocabulary
from chatbots.encoders.word_vectors import WORD_DIMENSION, word_vectors
from chatbots.training.data import data_prepare
from chatbots.training.initialisation import embed_words, initialise_model
from tests.chatbots.training.builders import config, corpus_write


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
    wanted = config(corpus_write(tmp_path), "vhred", start={"word_counts": True})
    data = data_prepare(wanted)
    model = initialise_model(wanted, data, tmp_path / "out")
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
