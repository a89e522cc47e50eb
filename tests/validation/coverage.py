"""Do the intervals that pages print hold what they claim? Simulated studies, many more than the suite has time for.

    python -m tests.validation.coverage [--studies 1500]

Differences by generalised least squares, means of bots with few and many raters, r over bots, votes, agreement of
raters, strengths of bots, preferences, weights of options, choices beside people's, the slope of the hybrid metric
and what stands beside its r, prediction-powered means, and the always-valid test, by the share of studies in which
any look leaves the truth out, with raters dealt out evenly and by what came out so far. The designs are those of the
suite's tests. Those of `strong` are in `tests.validation.simulated`. Prints only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection

import numpy as np
from scipy import stats as distributions
from scipy.special import expit, softmax

from evaluation.agreement.preference_benchmark import ChoiceAgreement, PairChoice, compare_choices
from evaluation.analysis.answers import approval
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.analysis.prediction_powered import powered_mean
from evaluation.hybrid.bot_level import interval_over_conversations
from evaluation.hybrid.calibration import effective_ratings, intervals_by_errors, prediction_accuracy
from evaluation.hybrid.levels import bot_levels
from evaluation.stats.agreement import (
    AgreementEstimate,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    pairwise_kappa,
)
from evaluation.stats.bradley_terry import bradley_terry
from evaluation.stats.comparisons import preferences_fixed
from evaluation.stats.correlation import METHODS, correlate, within_groups
from evaluation.stats.gls import fit_gls
from evaluation.stats.means import SHARE, mean_interval
from tests.evaluation.stats import simulated_columns, simulated_means, test_gls, test_sequential
from tests.validation import simulated

LEVEL = 0.90
N_STUDIES = 1_500
LEVELS = (0.90, 0.95)
RATERS = (3, 5, 8, 12, 20, 40)
BOTS = (4, 6, 8, 12, 20)
N_RESAMPLES = 500
RATERS_POWERED = (5, 8, 12, 20, 30, 60)


def coverage_line(title: str, n_covered: int, n: int, width: float, level: float = LEVEL) -> str:
    """Return one line: how often an interval held the truth, and how wide it was."""
    error = np.sqrt(level * (1 - level) / n)
    less = n_covered / n < level - 2 * error
    return (
        f"{title}, {level:.0%}: held in {n_covered / n:.3f} of {n} studies (Monte-Carlo error {error:.3f}), mean width "
        f"{width:.2f}" + (", LESS THAN IT CLAIMS" if less else "")
    )


def differences(n: int) -> list[str]:
    """Return how often intervals of differences held, over all pairs of a design and the worst pair."""
    lines = []
    for design in (test_gls.uneven, test_gls.within, test_gls.apart, test_gls.few):
        rng = np.random.default_rng(7)
        pairs = [(i, j) for i in range(4) for j in range(i)]
        n_covered, width = np.zeros(len(pairs)), 0.0
        for _ in range(n):
            fit = fit_gls(*design(rng))
            for place, (i, j) in enumerate(pairs):
                gap = fit.gap(i, j)
                half = distributions.t.ppf(0.5 + LEVEL / 2, gap.df) * gap.error
                true = test_gls.TRUE[i] - test_gls.TRUE[j]
                n_covered[place] += abs(gap.difference - true) <= half
                width += 2 * half / n / len(pairs)
        lines.append(coverage_line(f"difference, {design.__name__}", round(n_covered.mean()), n, width))
        lines.append(f"  worst of its {len(pairs)} pairs {n_covered.min() / n:.3f}")
    return lines


def means(n: int) -> list[str]:
    """Return how often intervals of a bot's mean held, by design, number of raters and level."""
    lines = [
        coverage_line(f"mean of {k} raters, {design}", round(share * n), n, width, level)
        for level in LEVELS
        for design in simulated_means.DESIGNS
        for k in RATERS
        for share, width in [simulated_means.held(design, k, level, n)]
    ]
    for sizes in ((3, 3), (8, 6), (20, 5), (5, 20), (20, 20)):
        for spreads in ((0.5, 0.5), (0.7, 0.1), (0.1, 0.7)):
            share, width = simulated_means.held_crossed(*sizes, spreads, LEVEL, n)
            title = f"mean of {sizes[0]} raters of the same {sizes[1]} things, which vary by {spreads}"
            lines.append(coverage_line(title, round(share * n), n, width))
    return lines


def correlations(n: int) -> list[str]:
    """Return how often the interval of r over bots held, of all three coefficients that fits of the hybrid metric and
    pages print.
    """
    lines = []
    for n_bots in BOTS:
        for true in (0.0, 0.5, 0.9):
            truth = {
                "pearson": true,
                "spearman": 6 / np.pi * np.arcsin(true / 2),
                "kendall": 2 / np.pi * np.arcsin(true),
            }
            methods = [method for method in METHODS if method != "kendall" or n_bots > 4]
            rng = np.random.default_rng(12)
            n_covered, width = dict.fromkeys(methods, 0), dict.fromkeys(methods, 0.0)
            for _ in range(n):
                x, noise = rng.normal(size=(2, n_bots))
                y = true * x + np.sqrt(1 - true**2) * noise
                for method, bot_level in bot_levels(x, y, seed=0, null=lambda: None, methods=methods).items():
                    low, high = bot_level.correlation.low, bot_level.correlation.high
                    assert low is not None
                    assert high is not None
                    n_covered[method] += low <= truth[method] <= high
                    width[method] += (high - low) / n
            lines += [
                coverage_line(f"{m} of r = {true} over {n_bots} bots", n_covered[m], n, width[m], 0.95) for m in methods
            ]
    return lines


def with_mass_at_zero(n: int) -> list[str]:
    """Return how often the jackknife over contexts held r and ρ of a skewed column of which most values are 0."""
    lines = []
    for design in simulated_columns.DESIGNS:
        for slope in (0.0, 0.8):
            for method in METHODS[:2]:
                result = simulated_columns.held(design, slope, method, n)
                contexts, each, zeros, sigma = design
                title = (
                    f"{method} of {contexts} contexts' {each} replies, {zeros:.0%} zeros, sigma {sigma}, slope {slope}"
                )
                refused = f"; {n - result.n} refused, p and interval differ in {result.contrary}"
                line = coverage_line(title, result.held, result.n, result.width, simulated_columns.LEVEL)
                lines.append(line + refused)
    return lines


def over_people(n: int) -> list[str]:
    """Return how often the jackknife over people held r and ρ over conversations, of which each person has several,
    and r within bots.
    """
    lines = []
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    for n_people, n_each in ((8, 5), (15, 3), (30, 4), (100, 2)):
        for share in (0.0, 0.7):
            truth: dict[str, float] = {
                "pearson": 0.5,
                "spearman": 6 / np.pi * np.arcsin(0.25),
                "pearson within bots": 0.5,
            }
            for method, true in truth.items():
                rng = np.random.default_rng(3)
                people = np.repeat(np.arange(n_people), n_each)
                n_covered, width = 0, 0.0
                for _ in range(n):
                    own, rest = (root @ rng.normal(size=(2, size)) for size in (n_people, len(people)))
                    x, y = np.sqrt(share) * own[:, people] + np.sqrt(1 - share) * rest
                    if method in METHODS:
                        result = correlate(x, y, method, units=people)
                    else:
                        bots = rng.integers(0, 4, len(people))
                        result = within_groups(x + bots, y - bots, bots, units=people)
                    assert result.low is not None
                    assert result.high is not None
                    n_covered += result.low <= true <= result.high
                    width += (result.high - result.low) / n
                title = f"{method} of {n_people} people's {n_each} each, {share:g} of the variance theirs"
                lines.append(coverage_line(title, n_covered, n, width, 0.95))
    return lines


def votes(n: int) -> list[str]:
    """Return how often the interval of a share of votes held, by conversations that differ in how many votes they
    have.
    """
    lines = []
    for most in (5, 20):
        for n_chats in (3, 5, 10, 30):
            for middle, spread in ((0.6, 0.0), (0.6, 1.5), (0.9, 1.5), (0.9, 3.0)):
                centre = np.log(middle / (1 - middle))
                many = np.random.default_rng(0).normal(size=400_000)
                true = float(expit(centre + spread * many).mean())
                rng = np.random.default_rng(4)
                n_covered, width = 0, 0.0
                for _ in range(n):
                    values = rng.integers(1, most + 1, n_chats)
                    up = rng.binomial(values, expit(centre + spread * rng.normal(size=n_chats)))
                    cast = np.repeat(np.tile([1.0, 0.0], n_chats), np.c_[up, values - up].ravel())
                    chats = np.repeat(np.arange(n_chats), values)
                    result = mean_interval(cast, chats, LEVEL, scale=SHARE)
                    assert result.low is not None
                    assert result.high is not None
                    n_covered += result.low <= true <= result.high
                    width += (result.high - result.low) / n
                title = f"{true:.2f} of votes up, {n_chats} conversations of up to {most}, spread {spread:g}"
                lines.append(coverage_line(title, n_covered, n, width))
    return lines


def agreements(n: int) -> list[str]:
    """Return how often intervals of agreement over items held, of those that there are.

    Raters know the answer or guess with the same frequencies (nominal); or see a value with noise, on a slider, or as
    points of 1 to 5 in the middle or near the end of the scale.
    """
    lines = []
    for design, (drawn, kinds) in _DESIGNS.items():
        for n_raters in (2, 3, 5):
            for level in (0.3, 0.6, 0.9):
                lines += _agreement(n, design, drawn, kinds, n_raters, level)
    return lines


def _agreement(n: int, design: str, drawn: Drawn, kinds: Collection[str], n_raters: int, level: float) -> list[str]:
    """Return lines of one design: for each coefficient and number of items, how often its interval held."""
    kinds = [kind for kind in kinds if n_raters == 2 or not kind.startswith("Cohen")]
    many = drawn(np.random.default_rng(1), 20_000, n_raters, level)
    truth = {kind: _COEFFICIENTS[kind](many).value for kind in kinds}
    lines = []
    for n_items in (10, 15, 20, 40):
        rng = np.random.default_rng(13)
        ends: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(n):
            table = drawn(rng, n_items, n_raters, level)
            for kind in kinds:
                result = _COEFFICIENTS[kind](table)
                if result.low is not None and result.high is not None:
                    ends[kind].append((result.low, result.high))
        for kind, pairs in ends.items():
            true = truth[kind]
            assert true is not None
            title = f"{kind} {true:.2f}, {design}, {n_items} items, {n_raters} raters"
            if len(pairs) < n / 10:
                lines.append(f"{title}: an interval in {len(pairs)} of {n} studies")
                continue
            low, high = np.array(pairs).T
            n_covered = int(((low <= true) & (true <= high)).sum())
            lines.append(coverage_line(title, n_covered, len(pairs), float((high - low).mean()), 0.95))
    return lines


Drawn = Callable[[np.random.Generator, int, int, float], np.ndarray]


def _answers(rng: np.random.Generator, n_items: int, n_raters: int, level: float) -> np.ndarray:
    """Return answers: the true one of three, or by chance with the same frequencies."""
    frequency = [0.5, 0.3, 0.2]
    true = rng.choice(3, size=(n_items, 1), p=frequency)
    guessed = rng.choice(3, size=(n_items, n_raters), p=frequency)
    return np.where(rng.random((n_items, n_raters)) > level**0.5, guessed, true).astype(float)


def _one_rare(rng: np.random.Generator, n_items: int, n_raters: int, level: float) -> np.ndarray:
    """Return answers like `_answers`, of two, of which one is given by 85 of 100."""
    true, guessed = (rng.random((n_items, k)) < 0.15 for k in (1, n_raters))
    return np.where(rng.random((n_items, n_raters)) > level**0.5, guessed, true).astype(float)


def _slider(rng: np.random.Generator, n_items: int, n_raters: int, level: float) -> np.ndarray:
    noise = rng.normal(0, (1 / level - 1) ** 0.5, size=(n_items, n_raters))
    return rng.normal(size=(n_items, 1)) + noise


def _points(middle: float) -> Drawn:
    """Return a draw of points of 1 to 5 around this one."""
    return lambda *where: np.clip(np.round(middle + _slider(*where)), 1, 5)


_COEFFICIENTS: dict[str, Callable[[np.ndarray], AgreementEstimate]] = {
    "Cohen's kappa": lambda table: cohen_kappa(table[:, 0], table[:, 1]),
    "Cohen's weighted kappa": lambda table: cohen_kappa(table[:, 0], table[:, 1], "linear"),
    "Fleiss' kappa": fleiss_kappa,
    "Gwet's AC1": gwet_ac,
    "Gwet's AC2": lambda table: gwet_ac(table, "linear", categories=[1.0, 2.0, 3.0, 4.0, 5.0]),
    "nominal alpha": lambda table: krippendorff_alpha(table, "nominal"),
    "ordinal alpha": lambda table: krippendorff_alpha(table, "ordinal"),
    "interval alpha": krippendorff_alpha,
}
_NOMINAL = ("Cohen's kappa", "Fleiss' kappa", "Gwet's AC1", "nominal alpha")
_DESIGNS: dict[str, tuple[Drawn, tuple[str, ...]]] = {
    "three answers": (_answers, _NOMINAL),
    "one answer of two rare": (_one_rare, _NOMINAL),
    "points around 3": (_points(3.0), ("Cohen's weighted kappa", "Gwet's AC2", "ordinal alpha")),
    "points around 4.3": (_points(4.3), ("Cohen's weighted kappa", "Gwet's AC2", "ordinal alpha")),
    "slider": (_slider, ("interval alpha",)),
}


def medians(n: int) -> list[str]:
    """Return how often percentiles of the median of Cohen's kappas held."""
    lines = []
    for n_raters in (3, 4, 6):
        for level in (0.3, 0.7):
            true = pairwise_kappa(_answers(np.random.default_rng(1), 20_000, n_raters, level), n_bootstrap=2).median
            assert true is not None
            for n_items in (20, 40):
                rng = np.random.default_rng(13)
                ends = np.array(
                    [
                        (result.low, result.high)
                        for _ in range(n)
                        for result in [pairwise_kappa(_answers(rng, n_items, n_raters, level), n_bootstrap=N_RESAMPLES)]
                    ],
                    dtype=float,
                )
                low, high = ends.T
                n_covered = int(((low <= true) & (true <= high)).sum())
                title = f"median kappa {true:.2f}, {n_items} items, {n_raters} raters"
                lines.append(coverage_line(title, n_covered, n, float((high - low).mean()), 0.95))
    return lines


def weights(n: int) -> list[str]:
    """Return how often intervals of weights of six options held, of which each person chooses four."""
    lines = []
    for spread in (0.0, 1.0, 3.0):
        liked = spread * np.array([1.0, 0.5, 0.2, 0.0, -0.3, -1.0])
        true = softmax(_chosen(np.random.default_rng(0), 200_000, liked).mean(axis=0))
        for n_people in (3, 5, 8, 12, 20, 50):
            rng = np.random.default_rng(14)
            n_covered, width = np.zeros(6), 0.0
            for _ in range(n):
                options = approval(_chosen(rng, n_people, liked), list("abcdef")).options
                ends = np.array([(option.weight_low, option.weight_high) for option in options], dtype=float)
                n_covered += (ends[:, 0] <= true) & (true <= ends[:, 1])
                width += float(np.ptp(ends, axis=1).mean()) / n
            title = f"weight of an option, {n_people} people, liked by {spread:g}"
            lines.append(coverage_line(title, round(n_covered.mean()), n, width, 0.95))
            lines.append(f"  worst of the six {n_covered.min() / n:.3f}")
    return lines


def _chosen(rng: np.random.Generator, n_people: int, liked: np.ndarray) -> np.ndarray:
    """Return (people, options) with 1 for the four that each likes most today."""
    today = liked + rng.gumbel(size=(n_people, len(liked)))
    return (np.argsort(np.argsort(-today, axis=1), axis=1) < 4).astype(float)


def slopes(n: int) -> list[str]:
    """Return how often the interval of the slope of human on predicted means held 1, where there is one.

    Bots are drawn from the model of `strong` as in `tests.validation.simulated`, and each is predicted by the process
    of the others; then a prediction is the bot's expected mean, so that the slope is 1.
    """
    lines = []
    for n_bots in (8, 12, 20):
        for n_each in (30, 200):
            n_covered, n_total, widths = 0, 0, list[float]()
            for predicted, human in simulated.left_out(n, n_bots, n_each):
                names = [f"b{k}" for k in range(n_bots)]
                result = prediction_accuracy(
                    dict(zip(names, predicted, strict=True)), dict(zip(names, human, strict=True)), {}
                )
                if result.slope_interval is not None:
                    low, high = result.slope_interval
                    n_covered, n_total = n_covered + (low <= 1 <= high), n_total + 1
                    widths.append(high - low)
            title = f"slope, {n_bots} bots of {n_each} ratings, in {n_total} of {n} studies"
            lines.append(coverage_line(title, n_covered, n_total, float(np.median(widths)), 0.95))
    return lines


def beside_fits(n: int) -> list[str]:
    """Return how often the intervals beside a hybrid fit's r held, by number of bots."""
    lines = []
    for n_bots in (6, 8, 12):
        names = [f"b{k}" for k in range(n_bots)]
        rng = np.random.default_rng(21)
        n_covered, width = dict.fromkeys(_BESIDE, 0), dict.fromkeys(_BESIDE, 0.0)
        for _ in range(n):
            for what, (truth, low, high) in _beside_a_fit(rng, names).items():
                n_covered[what] += low <= truth <= high
                width[what] += (min(high, 1e3) - max(low, -1e3)) / n
        lines += [coverage_line(f"{what}, {n_bots} bots", n_covered[what], n, width[what], 0.95) for what in _BESIDE]
    return lines


_BESIDE = (
    "what a prediction is worth",
    "the same of the mean of the others",
    "by the errors of the other bots",
    "r of other conversations of the bots",
    "r given the lengths",
    "r within bots",
)


def _beside_a_fit(rng: np.random.Generator, names: list[str]) -> dict[str, tuple[float, float, float]]:
    """Draw a study and return for each of `_BESIDE` the truth and the ends of its interval."""
    k, n_each = len(names), 40

    def by_bot(values: np.ndarray) -> dict[str, float]:
        return dict(zip(names, values.tolist(), strict=True))

    results = {}
    true = rng.normal(size=k) * 0.5
    human = true + rng.normal(size=k) / np.sqrt(n_each)
    noise = dict.fromkeys(names, (n_each, 1 / n_each))
    others = (human.sum() - human) / (k - 1)
    apart = true + rng.normal(size=k) * 0.2
    of_others = 0.25 + (0.25 + 1 / n_each) / (k - 1)
    for what, predicted, variance in zip(_BESIDE[:2], (apart, others), (0.04, of_others), strict=True):
        worth = effective_ratings(by_bot(predicted), by_bot(human), noise, dict.fromkeys(names, 1.0))
        assert worth is not None
        low, high = worth.interval
        results[what] = (1 / variance, low or np.inf, high or np.inf)
    ends = intervals_by_errors(by_bot(others), by_bot(human), dict.fromkeys(names, n_each))
    results[_BESIDE[2]] = (float(human[0]), *ends[names[0]].new)

    score = 0.8 * true + 0.15 * rng.normal(size=k)
    predicted, given = (
        values[:, None] + spread * rng.normal(size=(k, n_each)) for values, spread in ((score, 0.3), (true, 1.0))
    )
    over = interval_over_conversations(list(zip(predicted, given, strict=True)), 0)
    assert over is not None
    again = score + 0.3 * rng.normal(size=k) / np.sqrt(n_each)
    rated_again = true + rng.normal(size=k) / np.sqrt(n_each)
    results[_BESIDE[3]] = (float(np.corrcoef(again, rated_again)[0, 1]), *over)

    lengths = rng.normal(size=(k, 2))
    x, y = rng.normal(size=(2, k))
    y = 0.6 * x + 0.8 * y
    told_of = prediction_accuracy(
        by_bot(x + lengths @ [0.5, 0.3]),
        by_bot(y + lengths @ [0.4, -0.2]),
        {},
        lengths=dict(zip(names, lengths, strict=True)),
    ).partial
    assert told_of is not None
    assert told_of.low is not None
    assert told_of.high is not None
    results[_BESIDE[4]] = (0.6, told_of.low, told_of.high)

    x, y = rng.normal(size=(2, k, n_each))
    y = 0.2 * x + np.sqrt(1 - 0.04) * y + rng.normal(size=(k, 1))
    within = within_groups(x.ravel(), y.ravel(), np.repeat(names, n_each).tolist())
    assert within.low is not None
    assert within.high is not None
    results[_BESIDE[5]] = (0.2, within.low, within.high)
    return results


def choices(n: int) -> list[str]:
    """Return how often intervals of a chooser's agreement with people held, by raters, pairs of replies and answers
    to each.
    """
    many = [_beside(np.random.default_rng((15, k)), 200, 100, 20) for k in range(60)]
    names = ("agreed", "kappa", "people")
    true = {name: float(np.mean([getattr(one, name).mean for one in many])) for name in names}
    lines = []
    for sizes in ((3, 20, 3), (5, 10, 3), (5, 40, 3), (8, 20, 2), (12, 60, 3), (30, 20, 5)):
        rng = np.random.default_rng(16)
        ends: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for _ in range(n):
            result = _beside(rng, *sizes)
            for name in names:
                one = getattr(result, name)
                if one.low is not None:
                    ends[name].append((one.low, one.high))
        for name, pairs in ends.items():
            low, high = np.array(pairs).T
            n_covered = int(((low <= true[name]) & (true[name] <= high)).sum())
            title = f"choices, {name}: {sizes[0]} raters, {sizes[1]} pairs, {sizes[2]} answers each"
            lines.append(coverage_line(title, n_covered, len(pairs), float((high - low).mean()), 0.95))
    return lines


def _beside(rng: np.random.Generator, n_raters: int, n_pairs: int, n_each: int) -> ChoiceAgreement:
    """Return a chooser beside people who differ in how far they go with it, on pairs of which two share a context."""
    goes, better = 1 + rng.normal(0, 0.5, n_raters), rng.normal(size=n_pairs)
    context = np.repeat(rng.normal(0, 0.8, -(-n_pairs // 2)), 2)[:n_pairs]
    own = rng.normal(0, 0.8, n_pairs)
    rater = np.array([rng.choice(n_raters, n_each, replace=False) for _ in range(n_pairs)]).ravel()
    pair = np.repeat(np.arange(n_pairs), n_each)
    ahead = goes[rater] * better[pair] + own[pair] + 0.5 * context[pair] * np.sign(better[pair])
    ahead += rng.logistic(size=len(pair))
    values = np.where(np.abs(ahead) < 0.4, 0.0, np.sign(ahead))
    judged = PairJudgements(
        item=np.array([f"p{k}" for k in pair], dtype=object),
        first=np.array(["a"] * len(pair), dtype=object),
        second=np.array(["b"] * len(pair), dtype=object),
        rater=np.array([f"r{k}" for k in rater], dtype=object),
        answers={"quality": values},
        titles={"quality": "Quality"},
    )
    chosen = {
        f"p{k}": PairChoice(0.0 if abs(gap) < 0.15 else float(np.sign(gap)), "a", str(k // 2))
        for k, gap in enumerate(better.tolist())
    }
    return compare_choices(judged, chosen)


def preferences(n: int) -> list[str]:
    """Return in how many studies of six equal bots the test of one look preferred none, and how often its intervals
    held.
    """
    lines = []
    for n_raters, n_each in ((5, 15), (10, 15), (30, 5)):
        rng = np.random.default_rng(17)
        right, n_covered, n_total, width = 0, 0, 0, 0.0
        for _ in range(n):
            result = preferences_fixed(*_equal(rng, n_raters, n_each), level=LEVEL)
            right += not any(pair.ordered for pair in result)
            for pair in result:
                if pair.low is not None and pair.high is not None:
                    n_covered, n_total = n_covered + (pair.low <= 0 <= pair.high), n_total + 1
                    width += pair.high - pair.low
        title = f"{n_raters} raters of {n_each} pairs"
        lines.append(coverage_line(f"nobody preferred among six equal bots, {title}", right, n, 0.0))
        lines.append(coverage_line(f"preference, {title}", round(n_covered / n_total * n), n, width / n_total))
    return lines


def _equal(rng: np.random.Generator, n_raters: int, n_each: int) -> tuple[np.ndarray, list[str], list[str], list[int]]:
    """Return judgements of six bots that raters prefer each in their own way, none all of them."""
    bots = np.array(list("abcdef"))
    first = rng.integers(6, size=(n_raters, n_each))
    second = (first + rng.integers(1, 6, size=first.shape)) % 6
    own = rng.normal(0, 0.7, size=(n_raters, 6))
    rater = np.repeat(np.arange(n_raters), n_each)
    ahead = own[rater, first.ravel()] - own[rater, second.ravel()] + rng.logistic(size=len(rater))
    values = np.where(np.abs(ahead) < 0.4, 0.0, np.sign(ahead))
    return values, bots[first.ravel()].tolist(), bots[second.ravel()].tolist(), rater.tolist()


def strengths(n: int) -> list[str]:
    """Return how often differences of log strengths held, by raters who differ in what they prefer."""
    true = bradley_terry(*_judged(np.random.default_rng(9), 6_000, 10))
    truth = {(pair.a, pair.b): pair.difference for pair in true.comparisons}
    lines = []
    for n_raters, n_each in ((6, 10), (10, 10), (20, 6), (40, 4)):
        rng = np.random.default_rng(1)
        n_covered, n_total, width = 0, 0, 0.0
        for _ in range(n):
            result = bradley_terry(*_judged(rng, n_raters, n_each), level=LEVEL)
            for pair in result.comparisons:
                low, high, real = pair.low, pair.high, truth[pair.a, pair.b]
                assert low is not None and high is not None and real is not None  # noqa: PT018
                n_covered, n_total, width = n_covered + (low <= real <= high), n_total + 1, width + high - low
        title = f"difference of strengths, {n_raters} raters of {n_each} pairs"
        lines.append(coverage_line(title, round(n_covered / n_total * n), n, width / n_total))
    return lines


def _judged(rng: np.random.Generator, n_raters: int, n_each: int) -> tuple[list[str], list[str], np.ndarray, list[str]]:
    """Return the first and the second bot of each pair, whether the first won, and who judged."""
    bots = np.array(["a", "b", "c"])
    first = rng.integers(3, size=(n_raters, n_each))
    second = (first + rng.integers(1, 3, size=first.shape)) % 3
    own = np.array([0.0, 0.4, 1.0]) + rng.normal(0, 0.7, size=(n_raters, 3))
    rater = np.repeat(np.arange(n_raters), n_each)
    ahead = own[rater, first.ravel()] - own[rater, second.ravel()]
    won = (rng.random(len(ahead)) < 1 / (1 + np.exp(-ahead))).astype(float)
    return bots[first.ravel()].tolist(), bots[second.ravel()].tolist(), won, rater.tolist()


def powered(n: int) -> list[str]:
    """Return how often prediction-powered intervals held, where the prediction explains half of the variance."""
    return [_one(f"powered mean of {k} raters", n, k, _powered) for k in RATERS_POWERED]


Interval = Callable[[np.random.Generator, int], tuple[float | None, float | None]]


def _one(title: str, n: int, n_raters: int, interval: Interval) -> str:
    rng = np.random.default_rng(11)
    ends = np.array([interval(rng, n_raters) for _ in range(n)], dtype=float)
    low, high = ends.T
    return coverage_line(title, int(((low <= 0) & (high >= 0)).sum()), n, float(np.mean(high - low)))


def _powered(rng: np.random.Generator, n_raters: int) -> tuple[float | None, float | None]:
    predicted = rng.normal(size=n_raters)
    result = powered_mean(predicted + rng.normal(size=n_raters), predicted, rng.normal(size=5 * n_raters), level=LEVEL)
    return result.low, result.high


def looked_at_often(n: int) -> list[str]:
    """Return in how many studies the always-valid test never left the truth out."""
    lines = []
    shares = (test_sequential.LIKED, test_sequential.SPLIT)
    for rule in (test_sequential.balanced, test_sequential.greedy):
        for repeats in (1, 6):
            rng, widths = np.random.default_rng(8), list[float]()
            wrong = sum(test_sequential.ever_wrong(rng, rule, shares, repeats=repeats, widths=widths) for _ in range(n))
            title = f"at every look, {rule.__name__}, up to {repeats} ratings a rater"
            lines.append(coverage_line(title, n - wrong, n, float(np.mean(widths))))
    return lines


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    n = parser.parse_args().studies
    parts = (differences, means, correlations, votes, powered, looked_at_often, agreements, weights, preferences)
    for part in parts:
        print("\n".join(part(n)), flush=True)
    for part in (beside_fits, choices, medians, slopes, strengths, over_people, with_mass_at_zero):
        print("\n".join(part(n // 3)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
