"""Grouped attention gives what transformers' own gives, and is taken where a few tokens follow many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from chatbots.bots.transformers_bot import TransformersBot
from chatbots.generation import kv_cache
from tests.tiny_models import save_model


@pytest.mark.parametrize(("n_new", "n_all"), [(5, 40), (1, 40), (40, 40), (100, 300)])
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_it_is_the_usual_attention(n_new: int, n_all: int, kind: torch.dtype) -> None:
    torch.manual_seed(1)
    query = torch.randn(2, 8, n_new, 16)
    key, value = torch.randn(2, 2, 2, n_all, 16)
    seen = torch.ones(n_new, n_all, dtype=torch.bool).tril(n_all - n_new).repeat(2, 1, 1, 1)
    seen[1, ..., :3] = n_new == n_all  # empty columns at the left of the second row
    mask = seen if kind is torch.bool else torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    module: Any = SimpleNamespace(num_key_value_groups=4, is_causal=True)
    given = (module, query, key, value, mask)
    found, _ = kv_cache.grouped_attention(*given, scaling=0.25, dropout=0.0)
    wanted, _ = sdpa_attention_forward(*given, scaling=0.25, dropout=0.0)
    assert found.shape == wanted.shape == (2, n_new, 8, 16)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("architecture", "is_used"), [("llama", True), ("gpt2", False)])
def test_models_whose_heads_share_use_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, architecture: str, is_used: bool
) -> None:
    from chatbots.conversation import Conversation
    from chatbots.serving import reply

    calls = []
    own = kv_cache.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args[0].shape[2])
        return own(*args, **options)

    bot = TransformersBot(name="tiny", model=str(save_model(tmp_path, architecture)), window=0, max_new_tokens=4)
    bot.load("cpu")
    monkeypatch.setattr(kv_cache, "scaled_dot_product_attention", counted)
    talk = Conversation(id="1", seed=1).with_turn("human", "hello how are you today")
    [first] = reply(bot, [talk])
    assert calls == [], "nothing is known yet"
    talk = talk.with_turn("bot", first.text or "").with_turn("human", "what do you like to eat")
    reply(bot, [talk])
    assert bool(calls) == is_used
