"""Batches of turns, and generation of each conversation as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chatbots.conversation import Conversation
from chatbots.models.batch import DialogueBatch, ReplySeeds, standard_normal
from tests.chatbots.models import references
from tests.chatbots.models.builders import CONVERSATIONS, EI, LATENT, MODELS, batch_of, ended, tiny


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="at least one"):
        DialogueBatch.from_ids([])
    with pytest.raises(ValueError, match=r"\(2, 3\); \(B, N, T\)"):
        DialogueBatch(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"lengths has shape \(2, 4\)"):
        DialogueBatch(torch.zeros(2, 3, 5, dtype=torch.long), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"emotion has shape"):
        DialogueBatch(torch.zeros(2, 3, 5, dtype=torch.long), torch.zeros(2, 3), emotion=torch.zeros(2, 3))


REPLY = [2, 7, 5, 9, 4]
SEEDS = [ReplySeeds(10 * b + 1, 10 * b + 2) for b in range(4)]


def logits_of(model, state, tokens=REPLY):
    """Return logits (steps, R, V) of rows that all read the same tokens."""
    steps = []
    for token in tokens:
        logits, state = model.step(torch.full((state.n_rows,), token), state)
        steps.append(logits)
    return torch.stack(steps)


def noise_of(seed: int, n: int = 3):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed)).double().numpy()


def expected_first(name: str, w, conversation, seeds: ReplySeeds):
    """Return what the decoder's first state is made of, by the equations."""
    read = [references.encode(w, u) for u in ended(conversation)]
    if name == "hred":
        return references.contexts(w, read)[-1]
    if name == "vhred":
        c = references.contexts(w, read)[-1]
        mean, variance = references.gaussian(w, "prior", c)
        return np.concatenate([c, mean + np.sqrt(variance) * noise_of(seeds.sentence)])
    z_conv = noise_of(seeds.conversation)
    start = np.tanh(w.linear("context_start.0", z_conv))
    c = references.contexts(w, [np.concatenate([h, z_conv]) for h in read], start)[-1]
    mean, variance = references.gaussian(w, "prior", c, z_conv)
    z = mean + np.sqrt(variance) * noise_of(seeds.sentence)
    return np.concatenate([c, z, z_conv])


@pytest.mark.parametrize("name", ["hred", "vhred", "vhcr"])
def test_steps_agree_with_the_equations(name):
    model = tiny(name)
    w = references.Weights(model)
    conversations = [*CONVERSATIONS, []]  # one that has not begun
    got = logits_of(model, model.encode_context(batch_of(conversations), SEEDS))
    for b, conversation in enumerate(conversations):
        first = expected_first(name, w, conversation, SEEDS[b])
        expected = references.decoder_logits(w, first, [*REPLY[1:], 3])
        torch.testing.assert_close(
            got[:, b].double(), torch.tensor(np.array(expected)), atol=2e-5, rtol=2e-5, check_dtype=False
        )


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_steps_of_single_turn_models_agree_with_teacher_forcing(name):
    """−log p of a reply, summed over steps, is the loss of the pair (latest utterance, reply)."""
    model = tiny(name)
    for conversation in [*CONVERSATIONS, []]:
        latest = conversation[-1] if conversation else []
        pair = model.loss(batch_of([[latest, REPLY[1:]]])).tokens_nll.detach()
        steps = logits_of(model, model.encode_context(batch_of([conversation])))
        log_p = torch.log_softmax(steps[:, 0], -1)
        said = -sum(log_p[i, token] for i, token in enumerate([*REPLY[1:], 3]))
        torch.testing.assert_close(said, pair, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
class TestRows:
    def test_together_as_alone(self, name):
        model = tiny(name)
        conversations = [*CONVERSATIONS, []]
        together = logits_of(model, model.encode_context(batch_of(conversations), SEEDS))
        for b, conversation in enumerate(conversations):
            alone = logits_of(model, model.encode_context(batch_of([conversation]), SEEDS[b : b + 1]))
            torch.testing.assert_close(together[:, b], alone[:, 0], atol=1e-5, rtol=1e-5)

    def test_select_join_and_repeat_keep_rows_apart(self, name):
        """Rows that are reordered, dropped, doubled and joined at different words go on as alone."""
        model = tiny(name)
        alone = [
            logits_of(model, model.encode_context(batch_of([c]), SEEDS[b : b + 1]))[:, 0]
            for b, c in enumerate(CONVERSATIONS)
        ]
        state = model.encode_context(batch_of(CONVERSATIONS[:2]), SEEDS[:2])
        for i in range(2):
            logits, state = model.step(torch.full((2,), REPLY[i]), state)
        state = state.select([1, 0])
        newcomer = model.encode_context(batch_of(CONVERSATIONS[2:]), SEEDS[2:3])
        state = type(state).join([newcomer, state])  # conversations 2, 1, 0
        owners, said = [2, 1, 0], [0, 2, 2]
        logits, state = model.step(torch.tensor([REPLY[s] for s in said]), state)
        for row, (owner, s) in enumerate(zip(owners, said, strict=True)):
            torch.testing.assert_close(logits[row], alone[owner][s], atol=1e-5, rtol=1e-5)
        state = state.select([0, 2]).repeat(2)  # 2, 2, 0, 0
        owners, said = [2, 2, 0, 0], [1, 1, 3, 3]
        logits, state = model.step(torch.tensor([REPLY[s] for s in said]), state)
        assert state.n_rows == 4
        for row, (owner, s) in enumerate(zip(owners, said, strict=True)):
            torch.testing.assert_close(logits[row], alone[owner][s], atol=1e-5, rtol=1e-5)

    def test_a_step_leaves_the_state_it_was_given(self, name):
        model = tiny(name)
        state = model.encode_context(batch_of(CONVERSATIONS), SEEDS[:3])
        first, _ = model.step(torch.full((3,), 2), state)
        model.step(torch.full((3,), 5), state)
        again, _ = model.step(torch.full((3,), 2), state)
        assert torch.equal(first, again)

    def test_the_last_message_counts(self, name):
        model = tiny(name)
        for n in range(1, 5):
            context = [[4 + i, 5] for i in range(n)]
            other = [*context[:-1], [10, 9, 8]]
            a, b = (logits_of(model, model.encode_context(batch_of([c]), SEEDS[:1])) for c in (context, other))
            assert float((a - b).abs().max()) > 1e-3

    def test_training_mode_is_refused(self, name):
        with pytest.raises(RuntimeError, match="eval"):
            tiny(name).train().encode_context(batch_of(CONVERSATIONS), SEEDS[:3])


@pytest.mark.parametrize("name", LATENT)
class TestLatents:
    def first(self, model, conversation, seeds):
        state = model.encode_context(batch_of([conversation]), [seeds])
        return model.step(torch.tensor([2]), state)[0][0]

    def test_seeds_decide(self, name):
        model = tiny(name)
        a, b, c = (
            self.first(model, CONVERSATIONS[0], s) for s in (ReplySeeds(1, 2), ReplySeeds(1, 2), ReplySeeds(1, 3))
        )
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        d = self.first(model, CONVERSATIONS[0], ReplySeeds(9, 2))
        assert torch.equal(a, d) == (name == "vhred")  # only VHCR has z_conv

    def test_seeds_are_wanted(self, name):
        with pytest.raises(ValueError, match="0 seeds for 3 conversations"):
            tiny(name).encode_context(batch_of(CONVERSATIONS))


def test_compat_redraws_z_conv_with_every_reply():
    first, second = ReplySeeds(1, 2), ReplySeeds(9, 2)
    model = tiny("vhcr", compat_redraw_z_conv=True)
    a, b = (TestLatents().first(model, CONVERSATIONS[0], s) for s in (first, second))
    assert torch.equal(a, b)  # the conversation's seed plays no part


def test_inferred_z_conv_follows_the_posterior():
    model = tiny("vhcr", infer_z_conv=True)
    plain = tiny("vhcr")
    conversation = CONVERSATIONS[0]
    seeds = ReplySeeds(1, 2)
    inferred = TestLatents().first(model, conversation, seeds)
    assert not torch.allclose(inferred, TestLatents().first(plain, conversation, seeds))
    # Nothing said: nothing to infer from.
    assert torch.equal(TestLatents().first(model, [], seeds), TestLatents().first(plain, [], seeds))
    w = references.Weights(model)
    last, _ = w.both_ways("inference", [references.encode(w, u) for u in ended(conversation)])
    mean, variance = references.gaussian(w, "z_conv_posterior", last)
    batch = batch_of([conversation])
    got = model._infer(model.read_utterances(batch), batch.n_utterances)
    torch.testing.assert_close(got.mean[0].detach().double(), torch.tensor(mean), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.variance[0].detach().double(), torch.tensor(variance), atol=1e-5, rtol=1e-5)


def test_reply_seeds_stay_with_the_conversation_and_change_with_the_turn():
    talk = Conversation.from_texts(["hello", "hi", "how are you?"], seed=5)
    later = talk.with_turn("bot", "fine")
    a, b = ReplySeeds.of(talk), ReplySeeds.of(later)
    assert a.conversation == b.conversation
    assert a.sentence != b.sentence
    assert ReplySeeds.of(talk.last(1)) == a  # a window does not matter
    assert a.sentence != talk.reply_seed  # which the words are drawn from
    noise = standard_normal([a.conversation, b.conversation, b.sentence], 4, torch.device("cpu"))
    assert torch.equal(noise[0], noise[1])
    assert not torch.equal(noise[0], noise[2])


def test_input_only_needs_the_extras_to_generate():
    model = tiny("hred", ei={**EI, "input_only": True})
    with pytest.raises(ValueError, match="emotion targets"):
        model.encode_context(batch_of(CONVERSATIONS))
    state = model.encode_context(batch_of(CONVERSATIONS, ei=True))
    assert state.n_rows == 3
    # Distilled heads, in contrast, are not needed.
    assert tiny("hred", ei=EI).encode_context(batch_of(CONVERSATIONS)).n_rows == 3


def test_a_lone_end_token_is_not_an_empty_context():
    """Self-play opens with one empty utterance; that is read, unlike no utterance at all."""
    model = tiny("hred")
    lone = model.encode_context(DialogueBatch.from_ids([[[]]]))
    none = model.encode_context(DialogueBatch.from_ids([[]]))
    assert not torch.allclose(lone.hidden, none.hidden)
