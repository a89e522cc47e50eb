"""Beam search against full enumeration and a search with plain lists, on tiny models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from chatbots.corpora.vocabulary import EOS, PAD, SOS, UNK
from chatbots.models.batch import ReplySeeds
from chatbots.models.beam_search import BeamSearch, BeamSettings, Hypothesis, beam_search, pick_hypothesis
from chatbots.models.catalogue import config_read, model_build
from tests.chatbots.models.builders import CONVERSATIONS, MODELS, TINY, batch_of, tiny

CONTEXTS = [*CONVERSATIONS, [[6, 6, 6]], []]
SEEDS = [ReplySeeds(b, b + 100) for b in range(len(CONTEXTS))]


def encoded(model, contexts=CONTEXTS, seeds=SEEDS):
    return model.encode_context(batch_of(contexts), seeds[: len(contexts)])


def log_probabilities(model, row: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Return log p of the next token after a prefix, decoded alone from the beginning."""
    state = encoded(model, CONTEXTS[row : row + 1], SEEDS[row : row + 1])
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
    found = beam_search(model, encoded(model), settings, start=SOS)
    for row in range(0, len(CONTEXTS), 2):
        assert_same(found[row], plain_search(model, row, settings))


@pytest.mark.parametrize("length_penalty", [0.0, 0.8])
@pytest.mark.parametrize("name", ["hred", "seq2seq"])
def test_a_beam_wide_enough_finds_what_full_enumeration_finds(name, length_penalty):
    """A vocabulary of 6, replies of 3: all 1 + 5 + 25 that end and all 125 that are cut, in order."""
    model = tiny(name, V=6)
    contexts = [[[4, 5], [5]], [[4]]]
    settings = BeamSettings(beam=160, max_tokens=3, end=EOS, length_penalty=length_penalty)
    found = beam_search(model, encoded(model, contexts), settings, start=SOS)
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
        assert_same(found[row], everything)


@pytest.mark.parametrize("name", MODELS)
def test_batched_as_one_by_one(name):
    model = tiny(name, spread=2.5)
    settings = BeamSettings(beam=5, max_tokens=8, end=EOS)
    together = beam_search(model, encoded(model), settings, start=SOS)
    for row in range(len(CONTEXTS)):
        state = encoded(model, CONTEXTS[row : row + 1], SEEDS[row : row + 1])
        (alone,) = beam_search(model, state, settings, start=SOS)
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]
        np.testing.assert_allclose([h.score for h in alone], [h.score for h in together[row]], atol=1e-4)


def answer_to(utterance: list[int]) -> int:
    """Return the word that begins an answer in the toy language: the one after the last word heard."""
    return 4 + (utterance[-1] - 4 + 1) % 7


def talk(random: np.random.Generator, n_utterances: int) -> list[list[int]]:
    """Make a conversation whose every utterance ends in a word that nothing foretells."""
    utterances = [[4, int(random.integers(4, 11))]]
    while len(utterances) < n_utterances:
        utterances.append([answer_to(utterances[-1]), int(random.integers(4, 11))])
    return utterances


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_swapping_the_last_message_changes_the_reply(name):
    """With beam 5 the released code ignored the last of 3 and of 5 messages, and of more."""
    sizes = {"d_model": 32} if name == "transformer" else {"E": 16, "H_e": 24, "H_d": 24}
    sizes |= {"C": 24} if name in ("hred", "vhred", "vhcr") else {}
    random = np.random.default_rng(0)
    model = model_build(config_read(name, {**TINY[name], **sizes}), seed=1).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(2)
    for _ in range(200):
        batch = batch_of([talk(random, 6) for _ in range(24)])
        parts = model.loss(batch, kl_weight=1.0, generator=generator)
        optimiser.zero_grad()
        (parts.total / parts.n_tokens).backward()
        optimiser.step()
    model.eval()

    settings = BeamSettings(beam=5, max_tokens=6, end=EOS, forbidden=(PAD, UNK, SOS))
    for n_utterances in range(1, 6):
        context = talk(random, n_utterances)
        contexts = [[*context[:-1], [context[-1][0], last]] for last in range(4, 11)]
        state = model.encode_context(batch_of(contexts), [ReplySeeds(0, 1)] * len(contexts))
        replies = beam_search(model, state, settings, start=SOS)
        assert [r[0].tokens[0] for r in replies] == [answer_to(c[-1]) for c in contexts]


@pytest.mark.parametrize("name", MODELS)
def test_newcomers_and_leavers_do_not_disturb(name):
    """Admitted between steps, beside others, one of them cancelled: each reply as if alone."""
    model = tiny(name, spread=2.5)
    settings = BeamSettings(beam=3, max_tokens=7, end=EOS)
    alone = beam_search(model, encoded(model), settings, start=SOS)

    search = BeamSearch(settings)
    found, owners = {}, {}

    def admit(rows):
        newcomers = model.encode_context(batch_of([CONTEXTS[r] for r in rows]), [SEEDS[r] for r in rows])
        owners.update(zip(search.admit(len(rows)), rows, strict=True))
        return newcomers.repeat(3), [SOS] * 3 * len(rows)

    def step(state, tokens):
        logits, state = model.step(torch.tensor(tokens), state)
        move = search.advance(logits)
        found.update({owners[slot]: hypotheses for slot, hypotheses in move.finished.items()})
        return state.select(move.rows), move.tokens

    state, tokens = step(*admit([0, 1]))
    newcomers, starts = admit([2, 3, 4])
    state, tokens = type(state).join([state, newcomers]), tokens + starts
    state, tokens = step(state, tokens)
    cancelled = next(slot for slot, row in owners.items() if row == 3)
    rows = search.cancel(cancelled)
    state, tokens = state.select(rows), [tokens[r] for r in rows]
    assert search.cancel(99) == list(range(search.n_slots * 3))
    while search.n_slots:
        state, tokens = step(state, tokens)
    assert sorted(found) == [0, 1, 2, 4]
    for row, hypotheses in found.items():
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone[row]]


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


def test_wrong_settings_and_rows_are_named():
    with pytest.raises(ValueError, match="beam is 0"):
        BeamSettings(beam=0, max_tokens=3, end=EOS)
    with pytest.raises(ValueError, match="length_penalty is -1"):
        BeamSettings(beam=1, max_tokens=3, end=EOS, length_penalty=-1)
    with pytest.raises(ValueError, match="forbidden holds 3"):
        BeamSettings(beam=1, max_tokens=3, end=EOS, forbidden=(EOS,))
    search = BeamSearch(BeamSettings(beam=2, max_tokens=3, end=EOS))
    assert search.advance(torch.zeros(0, 6)).rows == []
    search.admit(2)
    with pytest.raises(ValueError, match="3 rows for 2 slots of 2"):
        search.advance(torch.zeros(3, 6))


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

    def test_other_rules_are_refused(self):
        with pytest.raises(ValueError, match="rule is 'worst'"):
            pick_hypothesis(self.five, 0.0, rule="worst")  # type: ignore[arg-type]
