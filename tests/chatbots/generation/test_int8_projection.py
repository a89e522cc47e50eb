"""The projection in whole numbers: close to that in floating point, independent of the batch, and told apart."""

from pathlib import Path

import pytest
import torch

from chatbots.bots.base import BotError
from chatbots.bots.checkpoint import SHIPPED, CheckpointBot
from chatbots.checkpoints import checkpoint_load
from chatbots.conversation import Conversation
from chatbots.corpora.vocabulary import tokeniser_get
from chatbots.generation.checkpoint_batch import Int8Linear, quantise_projection, quantise_rows
from chatbots.models.batch import DialogueBatch
from chatbots.serving import reply
from tests.chatbots.neural_checkpoints import tiny_checkpoint

TEXTS = ["you like the dog ?", "i want a cat", "no", "we see the sea now !", "rain"]


def asked(n: int) -> list[Conversation]:
    return [
        Conversation.from_texts([TEXTS[(i + t) % 5] for t in range(1 + i % 3)], id=str(i), seed=i) for i in range(n)
    ]


def bot_of(folder: Path, **options) -> CheckpointBot:
    bot = CheckpointBot(name="tiny", folder=str(folder), **options)
    bot.load("cpu")
    return bot


def test_rounding_loses_half_a_step_at_most_and_zeros_stay():
    rows = torch.randn(5, 40, generator=torch.Generator().manual_seed(1))
    rows[2] = 0
    rows[3] *= 1e-3
    whole, scale = quantise_rows(rows)
    assert whole.dtype == torch.int8
    assert whole.abs().amax(1).tolist() == [127, 127, 0, 127, 127]
    assert ((whole * scale - rows).abs() <= scale / 2 + 1e-9).all()


@pytest.mark.parametrize(("n", "V"), [(1, 37), (7, 400), (64, 1003)])
def test_logits_are_those_of_the_layer_but_for_rounding(n, V):
    torch.manual_seed(0)
    linear = torch.nn.Linear(96, V)
    states = torch.tanh(torch.randn(n, 96))
    got = Int8Linear(linear)(states)
    # Each product of two rounded numbers is off by less than half a step of each.
    off_by = linear.weight.abs().amax(1) / 127 * states.abs().sum(1, keepdim=True) / 2
    off_by = off_by + states.abs().amax(1, keepdim=True) / 254 * linear.weight.abs().sum(1)
    assert ((got - linear(states)).abs() <= off_by + 0.01).all()
    assert (got - linear(states)).std() < 0.02 * linear(states).std()
    one_by_one = torch.cat([Int8Linear(linear)(row[None]) for row in states])
    assert torch.equal(got, one_by_one), "to the last bit, whoever shares the batch"


@pytest.mark.parametrize("name", ["hred", "vhred", "vhcr", "seq2seq"])
@pytest.mark.parametrize("how", [{"decoding": "sample"}, {"decoding": "beam", "beam": 3}])
def test_replies_do_not_depend_on_the_batch(tmp_path, name, how):
    bot = bot_of(tiny_checkpoint(tmp_path / name, name), projection="int8", max_tokens=10, **how)
    together = [r.text for r in reply(bot, asked(6))]
    assert together == [reply(bot, [context])[0].text for context in asked(6)]
    assert len(set(together)) > 2


def test_a_shipped_model_says_nearly_the_same():
    plain, vocabulary, manifest = checkpoint_load(SHIPPED / "hred-demo")
    rough, _, _ = checkpoint_load(SHIPPED / "hred-demo")
    quantise_projection(rough)
    tokenise = tokeniser_get(manifest.tokeniser).tokenise
    talk = ["hello , how are you ?", "i am fine . do you like music ?", "yes , i play the piano ."]
    batch = DialogueBatch.from_ids([[vocabulary.ids(tokenise(text)) for text in talk]])
    results = []
    with torch.inference_mode():
        for model in (plain, rough):
            loss = model.loss(batch, generator=torch.Generator().manual_seed(1))
            results.append(float(loss.tokens_nll) / loss.n_tokens)
    assert results[0] != results[1]
    assert results[1] == pytest.approx(results[0], abs=0.02), "nats a token"


def test_it_is_another_bot_and_others_stay_who_they_were(tmp_path):
    folder = tiny_checkpoint(tmp_path / "hred", "hred")
    plain, same, rough = (
        CheckpointBot(name="tiny", folder=str(folder), **options)
        for options in ({}, {"projection": "float32"}, {"projection": "int8"})
    )
    assert plain.identity.key == same.identity.key != rough.identity.key
    assert "projection" not in plain.params
    assert rough.params["projection"] == "int8"


def test_what_cannot_be_computed_so_is_refused(tmp_path):
    with pytest.raises(BotError, match="its embedding; leave projection at float32"):
        bot_of(tiny_checkpoint(tmp_path / "t", "transformer"), projection="int8")
    with pytest.raises(ValueError, match="projection is 'int4'"):
        CheckpointBot(name="tiny", folder=str(tmp_path), projection="int4")
    bot = CheckpointBot(name="tiny", folder=str(tiny_checkpoint(tmp_path / "h", "hred")), projection="int8")
    with pytest.raises(BotError, match="for CPUs only, but the device is meta"):
        bot.load("meta")
