"""Every model learns a toy corpus in a few steps, and comes out the same from the same seeds."""

from __future__ import annotations

import pytest
import torch

from chatbots.models.catalogue import config_read, model_build
from tests.chatbots.models.builders import EI, MODELS, TINY, batch_of

# Each utterance is answered by the next word, twice: only who reads the last one can know.
CORPUS = [[[w, w], [w + 1, w + 1], [w + 2, w + 2]] for w in range(4, 8)]
VARIANTS = [
    *[(name, {}) for name in MODELS],
    ("vhred", {"bow": True}),
    *[(name, {"ei": EI | {"w_inf": 5.0}}) for name in ("hred", "vhred", "vhcr")],
    ("vhcr", {"ei": EI | {"input_only": True, "w_inf": 5.0}}),
]


def train(name: str, changes: dict, n_steps: int, **loss_options) -> tuple[list[float], float]:
    """Return the total loss of each step, and the perplexity of the replies at the end."""
    model = model_build(config_read(name, {**TINY[name], **changes}), seed=1).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    generator = torch.Generator().manual_seed(2)
    batch = batch_of(CORPUS, ei=True)
    totals = []
    for _ in range(n_steps):
        parts = model.loss(batch, kl_weight=0.1, generator=generator, **loss_options)
        optimiser.zero_grad()
        parts.total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        totals.append(float(parts.total.detach()))
    with torch.no_grad():
        parts = model.eval().loss(batch, generator=torch.Generator().manual_seed(3))
    return totals, float(torch.exp(parts.tokens_nll / parts.n_tokens))


@pytest.mark.parametrize(("name", "changes"), VARIANTS)
def test_the_loss_falls_and_the_replies_are_learnt(name, changes):
    totals, perplexity = train(name, changes, 60)
    assert totals[-1] < 0.5 * totals[0]
    assert perplexity < 2.5  # of 11 words; a guess among the 6 that are answers would be 6


@pytest.mark.parametrize("name", ["vhcr"])
def test_the_same_seeds_train_the_same_model(name):
    options = {"word_drop": 0.25, "sentence_drop": 0.25}
    assert train(name, {}, 5, **options) == train(name, {}, 5, **options)
