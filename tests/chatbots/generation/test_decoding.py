"""Choosing tokens: against a plain NumPy walk through the distribution, row by row."""

import numpy as np
import pytest
import torch

from chatbots.generation.decoding import NgramBan, choose, penalise_repetition, sample, uniform_numbers
from chatbots.models.batch import DialogueBatch
from tests.chatbots.models.builders import tiny


def choose_plainly(logits, uniform, temperature, top_k, top_p) -> int:
    """Choose a token of one row by the definition: filter, normalise, walk in the order of the vocabulary."""
    scaled = np.asarray(logits, dtype=np.float64) / temperature
    order = np.argsort(-scaled, kind="stable")
    if top_k:
        order = order[:top_k]
    probabilities = np.exp(scaled[order] - scaled[order].max())
    probabilities /= probabilities.sum()
    n = 1
    while n < len(order) and probabilities[:n].sum() < top_p:
        n += 1
    kept = np.sort(order[:n])
    weights = np.exp(scaled[kept] - scaled[kept].max())
    weights /= weights.sum()
    total = 0.0
    for token, weight in zip(kept, weights, strict=True):
        total += weight
        if total > uniform:
            return int(token)
    return int(kept[-1])


@pytest.mark.parametrize("top_k", [0, 1, 7, 5000])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-6])
@pytest.mark.parametrize("n_vocabulary", [40, 2000])
def test_agrees_with_the_definition(top_k, top_p, n_vocabulary):
    random = np.random.default_rng(n_vocabulary + top_k)
    logits = random.normal(0, 2, size=(50, n_vocabulary)).astype(np.float32)
    uniforms = random.random(50).tolist()
    got = choose(torch.tensor(logits), uniforms, temperature=0.8, top_k=top_k, top_p=top_p)
    expected = [choose_plainly(row, u, 0.8, top_k, top_p) for row, u in zip(logits, uniforms, strict=True)]
    assert got.tolist() == expected


def test_frequencies_follow_the_distribution():
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).expand(20_000, 4)
    chosen = choose(logits, uniform_numbers(3, 20_000))
    shares = torch.bincount(chosen, minlength=4) / 20_000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.015)


def test_greedy_takes_the_likeliest():
    logits = torch.tensor([[0.1, 3.0, 2.0], [5.0, -1.0, 4.0]])
    assert choose(logits, [0.999, 0.999], temperature=0).tolist() == [1, 0]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.99}])
def test_a_forbidden_token_is_never_chosen(uniform, options):
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf, 0.5, -torch.inf]])
    assert choose(logits, [uniform], **options).item() in (1, 3)


def test_a_row_does_not_depend_on_its_neighbours_nor_on_rounding():
    torch.manual_seed(0)
    logits = torch.randn(64, 500) * 0.3  # flat: many tokens are almost equal
    uniforms = uniform_numbers(1, 64)
    options = {"temperature": 1.0, "top_k": 50, "top_p": 0.95}
    together = choose(logits, uniforms, **options)
    noisy = choose(logits + torch.randn_like(logits) * 1e-6, uniforms, **options)
    alone = [choose(logits[i : i + 1], uniforms[i : i + 1], **options).item() for i in range(64)]
    assert together.tolist() == alone
    assert (together != noisy).sum() <= 1


def test_uniform_numbers_are_a_function_of_the_seed():
    assert uniform_numbers(5, 4) == uniform_numbers(5, 4)
    assert uniform_numbers(5, 8)[:4] == uniform_numbers(5, 4)
    assert uniform_numbers(6, 4) != uniform_numbers(5, 4)
    assert all(0 <= u < 1 for u in uniform_numbers(2**63 - 1, 1000))


def test_repetition_penalty():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    seen = torch.tensor([[True, True, False, False]])
    assert penalise_repetition(logits, seen, 2.0).tolist() == [[1.0, -4.0, 2.0, -2.0]]


def test_ngram_ban():
    ban = NgramBan(3)
    for token in [1, 2, 3, 1, 2]:
        ban.add(token)
    assert ban.forbidden() == {3}
    ban.add(4)
    assert ban.forbidden() == set()
    single = NgramBan(1)
    single.add(7)
    assert single.forbidden() == {7}
    with pytest.raises(ValueError, match="n is 0"):
        NgramBan(0)


class TestSample:
    """Replies of a network, against one token at a time for one conversation at a time."""

    contexts = ([[4, 5], [6]], [[7]], [[8, 9], [10], [4]], [])

    def encoded(self, model, contexts):
        return model.encode_context(DialogueBatch.from_ids(contexts))

    def replies(self, model, rows, **options):
        return sample(
            model,
            self.encoded(model, [self.contexts[r] for r in rows]),
            [100 + r for r in rows],
            start=2,
            end=3,
            **{"max_tokens": 8, **options},
        )

    def reply_plainly(self, model, row, temperature, top_k, forbidden, ngram):
        state = self.encoded(model, self.contexts[row : row + 1])
        uniforms = uniform_numbers(100 + row, 8)
        said: list[int] = []
        for uniform in uniforms:
            logits, state = model.step(torch.tensor([said[-1] if said else 2]), state)
            row_logits = logits[0].double().numpy().copy()
            row_logits[list(forbidden)] = -1e9
            if ngram:
                pairs = list(zip(*(said[i:] for i in range(ngram)), strict=False))
                for token in range(len(row_logits)):
                    if (*said, token)[-ngram:] in pairs:
                        row_logits[token] = -1e9
            if temperature == 0:
                token = int(row_logits.argmax())
            else:
                token = choose_plainly(row_logits, uniform, temperature, top_k, 1.0)
            if token == 3:
                break
            said.append(token)
        return said

    @pytest.mark.parametrize("name", ["hred", "transformer"])
    @pytest.mark.parametrize(
        ("temperature", "top_k", "forbidden", "ngram"),
        [(0, 0, (), 0), (1.0, 0, (), 0), (0.7, 3, (0, 1, 2), 0), (0, 0, (0, 1, 2), 2), (1.3, 0, (), 1)],
    )
    def test_agrees_with_one_token_at_a_time(self, name, temperature, top_k, forbidden, ngram):
        model = tiny(name, spread=2.0)
        got = self.replies(
            model, range(4), temperature=temperature, top_k=top_k, forbidden=forbidden, no_repeat_ngram=ngram
        )
        expected = [self.reply_plainly(model, row, temperature, top_k, forbidden, ngram) for row in range(4)]
        assert got == expected
        assert not any(token in forbidden for reply in got for token in reply)
