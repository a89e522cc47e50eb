"""Batches of turns, each conversation as if it were alone, and beam search against full enumeration and plain lists."""

import itertools

import numpy as np
import pytest
import torch

from chatbots.conversation import Conversation
from chatbots.corpora.vocabulary import EOS, PAD, SOS, UNK
from chatbots.models.batch import DialogueBatch, ReplySeeds, standard_normal
from chatbots.models.beam_search import BeamSettings, Hypothesis, beam_search, pick_hypothesis
from tests.chatbots.models import references
from tests.chatbots.models.builders import CONVERSATIONS, LATENT, MODELS, batch_of, ended, tiny

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
    a, b = ReplySeeds.from_conversation(talk), ReplySeeds.from_conversation(later)
    assert a.conversation == b.conversation
    assert a.sentence != b.sentence
    assert ReplySeeds.from_conversation(talk.last(1)) == a  # a window does not matter
    assert a.sentence != talk.reply_seed  # which the words are drawn from
    noise = standard_normal([a.conversation, b.conversation, b.sentence], 4, torch.device("cpu"))
    assert torch.equal(noise[0], noise[1])
    assert not torch.equal(noise[0], noise[2])


def test_a_lone_end_token_is_not_an_empty_context():
    """Self-play opens with one empty utterance; that is read, unlike no utterance at all."""
    model = tiny("hred")
    lone = model.encode_context(DialogueBatch.from_ids([[[]]]))
    none = model.encode_context(DialogueBatch.from_ids([[]]))
    assert not torch.allclose(lone.hidden, none.hidden)


CONTEXTS = [*CONVERSATIONS, [[6, 6, 6]], []]
SEARCH_SEEDS = [ReplySeeds(b, b + 100) for b in range(len(CONTEXTS))]


def encoded(model, contexts=CONTEXTS, seeds=SEARCH_SEEDS):
    return model.encode_context(batch_of(contexts), seeds[: len(contexts)])


def log_probabilities(model, row: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Return log p of the next token after a prefix, decoded alone from the beginning."""
    state = encoded(model, CONTEXTS[row : row + 1], SEARCH_SEEDS[row : row + 1])
    for token in (SOS, *prefix):
        logits, state = model.step(torch.tensor([token]), state)
    return torch.log_softmax(logits[0].double(), -1).numpy()


def plain_search(model, row: int, settings: BeamSettings) -> list[tuple]:
    """Search in the same way with lists, without stopping before the longest length."""
    alive, ended = [((), 0.0)], []

    def score(said, has_ended, log_p):
        return log_p / ((5 + len(said) + has_ended) / 6) ** settings.length_penalty

    for _ in range(settings.max_tokens):
        extensions = []
        for said, log_p in alive:
            for token, step in enumerate(log_probabilities(model, row, said)):
                n = settings.no_repeat_ngram
                grams = [said[i : i + n] for i in range(len(said) - n + 1)] if n else []
                if token in settings.forbidden or (n and (*said, token)[-n:] in grams):
                    continue
                if token == settings.end and len(said) < settings.min_tokens:
                    continue
                extensions.append((log_p + step, said, token))
        extensions.sort(key=lambda e: -e[0])
        ended += [(said, True, log_p) for log_p, said, token in extensions[: settings.beam] if token == settings.end]
        alive = [((*said, token), log_p) for log_p, said, token in extensions if token != settings.end][: settings.beam]
    ended.sort(key=lambda e: -score(*e))
    cut = sorted(((said, False, log_p) for said, log_p in alive), key=lambda e: -score(*e))
    return [(*e, score(*e)) for e in [*ended[: settings.beam], *cut][: settings.beam]]


def assert_same(got: list[Hypothesis], expected: list[tuple]):
    assert [(h.tokens, h.ended) for h in got] == [e[:2] for e in expected]
    np.testing.assert_allclose([h.log_probability for h in got], [e[2] for e in expected], atol=1e-4)
    np.testing.assert_allclose([h.score for h in got], [e[3] for e in expected], atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 1},
        {"beam": 2, "length_penalty": 1.0},
        {"length_penalty": 2.5},
        {"forbidden": (PAD, UNK, SOS), "min_tokens": 2},
        {"no_repeat_ngram": 1},
        {"no_repeat_ngram": 2, "forbidden": (UNK,), "max_tokens": 6},
        {"beam": 20, "max_tokens": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["hred", "vhcr", "transformer"])
def test_agrees_with_a_search_with_plain_lists(name, options):
    model = tiny(name, spread=2.5)
    settings = BeamSettings(**{"beam": 3, "max_tokens": 4, "end": EOS, **options})
    result = beam_search(model, encoded(model), settings, start=SOS)
    for row in range(0, len(CONTEXTS), 2):
        assert_same(result[row], plain_search(model, row, settings))


@pytest.mark.parametrize("length_penalty", [0.0, 0.8])
@pytest.mark.parametrize("name", ["hred", "seq2seq"])
def test_a_beam_wide_enough_finds_what_full_enumeration_finds(name, length_penalty):
    """A vocabulary of 6, replies of 3: all 1 + 5 + 25 that end and all 125 that are cut, in order."""
    model = tiny(name, V=6)
    contexts = [[[4, 5], [5]], [[4]]]
    settings = BeamSettings(beam=160, max_tokens=3, end=EOS, length_penalty=length_penalty)
    result = beam_search(model, encoded(model, contexts), settings, start=SOS)
    words = [token for token in range(6) if token != EOS]
    for row, context in enumerate(contexts):
        everything = []
        for length in range(4):
            for said in itertools.product(words, repeat=length):
                has_ended = length < 3
                state = encoded(model, [context])
                log_p = 0.0
                for read, token in itertools.pairwise([SOS, *said, *[EOS] * has_ended]):
                    logits, state = model.step(torch.tensor([read]), state)
                    log_p += float(torch.log_softmax(logits[0].double(), -1)[token])
                score = log_p / ((5 + length + has_ended) / 6) ** length_penalty
                everything.append((said, has_ended, log_p, score))
        everything.sort(key=lambda e: (not e[1], -e[3]))
        assert len(everything) == 156
        assert_same(result[row], everything)


def test_beam_1_is_greedy():
    model = tiny("hred", spread=2.5)
    for row in range(len(CONTEXTS)):
        said: tuple[int, ...] = ()
        while len(said) < 6 and (token := int(log_probabilities(model, row, said).argmax())) != EOS:
            said = (*said, token)
        state = encoded(model, CONTEXTS[row : row + 1])
        settings = BeamSettings(beam=1, max_tokens=6, end=EOS)
        assert beam_search(model, state, settings, start=SOS)[0][0].tokens == said


def test_when_all_is_forbidden_the_reply_is_cut():
    model = tiny("hred", V=6)
    settings = BeamSettings(beam=2, max_tokens=9, end=EOS, forbidden=(0, 1, 2), no_repeat_ngram=1, min_tokens=5)
    (hypotheses,) = beam_search(model, encoded(model, [[[4]]]), settings, start=SOS)
    assert {h.tokens for h in hypotheses} == {(4, 5), (5, 4)}
    assert not any(h.ended for h in hypotheses)


def hypotheses_of(*replies: tuple[int, ...]) -> list[Hypothesis]:
    return [Hypothesis(tokens, True, -float(i), -float(i)) for i, tokens in enumerate(replies)]


def picked(hypotheses, rule) -> list[int]:
    """Count how often each is picked over an even grid of 1000 numbers."""
    numbers = (np.arange(1000) + 0.5) / 1000
    chosen = [hypotheses.index(pick_hypothesis(hypotheses, u, rule=rule, unknown=UNK)) for u in numbers]
    return np.bincount(chosen, minlength=len(hypotheses)).tolist()


class TestPick:
    five = hypotheses_of((4,), (5, 5), (6, 6, 6), (7,), (8, 8, 8))

    def test_best(self):
        assert picked(self.five, "best") == [1000, 0, 0, 0, 0]

    def test_priority_draws_by_rank(self):
        assert picked(self.five, "priority") == [400, 300, 200, 100, 0]

    def test_length_draws_by_length(self):
        assert picked(self.five, "length") == [100, 200, 300, 100, 300]

    def test_empty_and_unknown_replies_are_left_out(self):
        mixed = hypotheses_of((), (UNK, UNK, UNK), (UNK, UNK), (4,), (5,))
        assert picked(mixed, "priority") == [0, 0, 667, 333, 0]
        assert picked(mixed[:3], "priority") == [0, 0, 1000]
        assert picked(mixed[:2], "priority") == [500, 500]
