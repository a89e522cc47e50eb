"""Small stored studies of pairs, dialogues, replies beside a known one and choices, computed again from their rows.

Davidson's model by scipy, choices without ties by statsmodels, kappas by scikit-learn, shares by pandas.
"""

import re
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.api import GLM, families
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from tests.builders import make_items, make_participant, make_study
from tests.evaluation.stats.means_by_hand import ends, over_both
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.results.item_results import study_items, study_pairs
from webapp.results.study_data import study_data
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

BOTS = ["brief", "listing", "wordy"]
LEVEL = 0.95
"""Of a new study's comparisons."""
ITEM_LEVEL = 0.9
"""Of means of replies to items."""
SHARED = 6
Z = {"brief": 0.0, "listing": 0.3, "wordy": 0.9}


def reply(bot: str, rng: np.random.Generator) -> str:
    """Return a text whose length and markup go with the bot, but not only."""
    words = " ".join(["word"] * int(rng.integers(3, 12) + 8 * (bot == "wordy")))
    return words + "\n- one\n- two" * int(rng.integers(0, 2) + (bot == "listing"))


def judged() -> Study:
    """Make a study of nine pairs, three of each two bots, that eight people judge, some kinder to what stands first."""
    rng = np.random.default_rng(11)
    study = make_study("p", protocol="pairwise", bots=[], state="draft", n_items=9, kappa_items=SHARED)
    for number in range(9):
        pair = list(combinations(BOTS, 2))[number % 3]
        two = [pair[i] for i in rng.permutation(2)]
        replies = [{"model": bot, "text": reply(bot, rng)} for bot in two]
        item_add(study=study, key=f"i{number}", context=["hi"], responses=replies)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for _person in range(8):
        leans = rng.normal(0, 0.4)
        task = task_open(participant=make_participant(study))
        # In the items' own order, whatever the draw: always the same answers.
        for slot in task.slots.select_related("item").order_by("item__key"):
            first, second = slot.item.responses
            longer = np.log2(len(first["text"]) / len(second["text"]))
            ahead = Z[first["model"]] - Z[second["model"]] + 0.5 * longer + leans
            ahead += rng.normal(0, 1)
            said = 0 if abs(ahead) < 0.4 else int(np.sign(ahead))
            answers = dict.fromkeys(("fluency", "relatedness", "empathy"), 0)
            rating_add(task=task, target=slot.item, answers={**answers, "quality": said})
    return study


def rows_of(study: Study) -> pd.DataFrame:
    """Read the judgements from the rows of the database, first reply by first reply."""
    results = []
    for rating in Rating.objects.filter(item__study=study).select_related("item").order_by("pk"):
        one, two = rating.item.responses
        marks = [len(re.findall(r"^- ", text["text"], re.M)) for text in (one, two)]
        results.append(
            {
                "item": rating.item.key,
                "rater": str(rating.participant_id),
                "first": one["model"],
                "second": two["model"],
                "said": rating.answers["quality"],
                "length": np.log2((1 + len(one["text"])) / (1 + len(two["text"]))),
                "markup": np.log2((1 + marks[0]) / (1 + marks[1])),
            }
        )
    return pd.DataFrame(results)


def davidson(rows: pd.DataFrame, controls: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Fit π_i : π_j : ν √(π_i π_j) by brute force; the sandwich's covariance has whole raters as units.

    Returns:
        log strengths of the second and third bot less the first one's, log ν and the controls; their covariance.
    """
    places = {bot: n for n, bot in enumerate(BOTS)}
    of = rows[["first", "second"]].replace(places).to_numpy(dtype=int)
    more = rows[controls].to_numpy(dtype=float)
    said = rows["said"].to_numpy()

    def each(at: np.ndarray) -> np.ndarray:
        strength = np.concatenate([[0.0], at[:2]])
        one = strength[of[:, 0]] + more @ at[3:]
        two = strength[of[:, 1]]
        odds = np.exp(np.stack([one, (one + two) / 2 + at[2], two], axis=1))
        return np.log((odds / odds.sum(axis=1, keepdims=True))[np.arange(len(said)), 1 - said])

    def gradient(of_what: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
        steps = np.eye(len(at)) * 1e-5
        return np.stack([(of_what(at + h) - of_what(at - h)) / 2e-5 for h in steps], axis=-1)

    start = np.zeros(3 + len(controls))
    fit = optimize.minimize(
        lambda at: -each(at).sum(), start, jac=lambda at: -gradient(each, at).sum(axis=0), options={"gtol": 1e-9}
    )
    scores = pd.DataFrame(gradient(each, fit.x)).groupby(rows["rater"].to_numpy()).sum()
    hessian = gradient(lambda at: gradient(each, at).sum(axis=0), fit.x)
    bread, n = np.linalg.inv(hessian), len(scores)
    return fit.x, bread @ (scores.T.to_numpy() @ scores.to_numpy()) @ bread * n / (n - 1)


@pytest.mark.django_db
def test_a_stored_study_of_pairs_is_what_brute_force_says() -> None:
    study = study_edit(study=judged(), state=Study.State.ENDED)
    study.is_sequential = False  # as if imported: the fixed-sample test
    rows = rows_of(study)
    results = study_pairs(study).results
    assert (results.n, results.n_items, results.n_raters) == (72, 9, 8)

    # Strengths with ties, plain and between replies equally long and equally marked up.
    t = stats.t.ppf(0.5 + LEVEL / 2, 8 - 1)
    for controls, fitted in (([], results.strengths), (["length", "markup"], results.held)):
        at, covariance = davidson(rows, controls)
        contrasts = {(0, 1): [-1, 0], (0, 2): [0, -1], (1, 2): [1, -1]}
        p_values, ranges = [], dict.fromkeys(BOTS, (1, 3))
        for (i, j), weights in contrasts.items():
            contrast = np.zeros(len(at))
            contrast[:2] = weights
            gap, error = contrast @ at, np.sqrt(contrast @ covariance @ contrast)
            pair = next(
                comparison for comparison in fitted.comparisons if (comparison.a, comparison.b) == (BOTS[i], BOTS[j])
            )
            assert pair.difference == pytest.approx(gap, abs=1e-4)
            # Derivatives by hand are numerical: a ten-thousandth of the width.
            near = max(1e-3, 1e-4 * 2 * t * error)
            assert (pair.low, pair.high) == pytest.approx((gap - t * error, gap + t * error), abs=near)
            p_values.append((i, j, gap, 2 * stats.t.sf(abs(gap) / error, 7)))
        assert fitted.tie == pytest.approx(np.exp(at[2]), abs=1e-4)
        for n, effect in enumerate(fitted.controls):
            half = t * np.sqrt(covariance[3 + n, 3 + n])
            assert (effect.value, effect.low, effect.high) == pytest.approx(
                (at[3 + n], at[3 + n] - half, at[3 + n] + half), abs=1e-3
            )
        assert [effect.name for effect in fitted.controls] == controls
        # Rank ranges: one place down for each bot that is stronger beyond chance after Holm's correction.
        told = multipletests([p for *_pair, p in p_values], alpha=1 - LEVEL, method="holm")[0]
        for bot in range(3):
            pairs = [(i, j, gap) for (i, j, gap, _p), is_told in zip(p_values, told, strict=True) if is_told]
            above = sum((i == bot and gap < 0) or (j == bot and gap > 0) for i, j, gap in pairs)
            below = sum((i == bot and gap > 0) or (j == bot and gap < 0) for i, j, gap in pairs)
            ranges[BOTS[bot]] = (1 + above, 3 - below)
        assert fitted.rank_ranges() == ranges

    # Shares are of judgements; their intervals resample whole raters.
    rows["a"] = rows[["first", "second"]].min(axis=1)
    rows["b"] = rows[["first", "second"]].max(axis=1)
    rows["score"] = rows["said"] * np.where(rows["first"] == rows["a"], 1, -1)
    for (a, b), part in rows.groupby(["a", "b"]):
        outcome = results.get_outcome("quality", a, b)
        assert outcome.wins.mean == pytest.approx((part["score"] == 1).mean())
        assert outcome.ties.mean == pytest.approx((part["score"] == 0).mean())
        given = part["score"].to_numpy(dtype=float)
        spread = over_both(given, part["rater"].to_numpy(), part["item"].to_numpy())
        by_hand = ends(given.mean(), spread, LEVEL, (-1, 1))
        assert [outcome.ahead.low, outcome.ahead.high] == pytest.approx(by_hand)

    # Who is preferred: the level whose interval ends at 0, corrected for the three pairs.
    outcomes = [outcome for outcome in results.outcomes if outcome.question == "quality"]
    for one in outcomes:
        part = rows[(rows["a"] == one.a) & (rows["b"] == one.b)]
        given = part["score"].to_numpy(dtype=float)
        spread = over_both(given, part["rater"].to_numpy(), part["item"].to_numpy())
        at = ends(given.mean(), spread, 1 - one.p, (-1, 1))
        assert min(map(abs, at)) == pytest.approx(0, abs=1e-9)
    told, p_holm, *_rest = multipletests([outcome.p for outcome in outcomes], alpha=1 - LEVEL, method="holm")
    assert [outcome.p_holm for outcome in outcomes] == pytest.approx(p_holm)
    assert [bool(outcome.sign) for outcome in outcomes] == told.tolist()
    assert results.test == "fixed"

    # Kappa: the median over pairs of raters who share as many items as the study says.
    table = rows.pivot(index="item", columns="rater", values="score")
    kappas = []
    for one, two in combinations(table.columns, 2):
        both = table[[one, two]].dropna()
        if len(both) >= SHARED:
            kappas.append(cohen_kappa_score(both[one], both[two]))
    kappa = next(kappa for kappa in results.kappas if kappa.question == "quality")
    assert kappa.n_pairs == len(kappas) == 28
    assert kappa.found.value == pytest.approx(np.median(kappas))


def compared() -> Study:
    """Make a study of nine stored conversations of three bots, pairs of which ten people choose from."""
    rng = np.random.default_rng(5)
    study = make_study("d", protocol="dialogues", bots=[], state="draft", n_dialogues=6, raters_each_pair=5)
    for name in BOTS:
        bot = BotVersion.objects.create(key=name, bot_id=name, title="", kind="", version="")
        for number in range(3):
            chat = Conversation.objects.create(
                source="import", state="completed", study=study, bot=bot, external_id=f"{name}{number}"
            )
            said = [("human", "hello"), ("bot", reply(name, rng))]
            Turn.objects.bulk_create(
                Turn(conversation=chat, index=n, speaker=who, text=text) for n, (who, text) in enumerate(said)
            )
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for _person in range(10):
        leans = rng.normal(0, 0.5)
        for one in requested_ratings(task := task_open(participant=make_participant(study))):
            first, second = (slot.conversation.bot.bot_id for slot in one.slots)
            ahead = 1.5 * (Z[first] - Z[second]) + leans + rng.logistic()
            answers = {"preference": 1 if ahead > 0 else -1}
            rating_add(task=task, target=one.target, answers=answers, comment="It asks me things")
    return study


@pytest.mark.django_db
def test_whole_dialogues_are_what_a_model_of_choices_without_ties_says() -> None:
    results = study_pairs(study := compared()).results
    rows = pd.DataFrame(
        {
            "pair": "~".join(sorted(str(slot.conversation_id) for slot in two)),
            "rater": str(rating.participant_id),
            "first": two[0].conversation.bot.bot_id,
            "second": two[1].conversation.bot.bot_id,
            "said": rating.answers["preference"],
        }
        for rating in Rating.objects.filter(participant__study=study).order_by("pk")
        for two in [(rating.first, rating.second)]
    )
    rows = rows[rows["first"] != rows["second"]]
    assert (results.n, results.n_items, results.n_raters) == (len(rows), rows["pair"].nunique(), 10)
    assert len(rows) == 40, "nobody reads a conversation twice: nine make four pairs"

    sides = [(rows[side].to_numpy()[:, None] == BOTS[1:]).astype(float) for side in ("first", "second")]
    fit = GLM((rows["said"] > 0).astype(float), sides[0] - sides[1], families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(rows["rater"])[0], "use_correction": False}
    )
    at = np.concatenate([[0.0], fit.params])
    covariance = np.zeros((3, 3))
    covariance[1:, 1:] = np.asarray(fit.cov_params()) * 10 / 9
    t = stats.t.ppf(0.5 + LEVEL / 2, 10 - 1)
    for i, j in combinations(range(3), 2):
        pair = next(
            comparison
            for comparison in results.strengths.comparisons
            if (comparison.a, comparison.b) == (BOTS[i], BOTS[j])
        )
        half = t * np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
        assert pair.difference == pytest.approx(at[i] - at[j], abs=1e-4)
        assert (pair.low, pair.high) == pytest.approx((at[i] - at[j] - half, at[i] - at[j] + half), abs=1e-3)
        mine = rows[rows[["first", "second"]].isin([BOTS[i], BOTS[j]]).all(axis=1)]
        won = mine["said"] * np.where(mine["first"] == BOTS[i], 1, -1)
        outcome = results.get_outcome("preference", BOTS[i], BOTS[j])
        assert outcome.wins.mean == pytest.approx((won == 1).mean())
        assert outcome.ties.mean == 0

    rows["score"] = rows["said"] * np.where(rows["first"] < rows["second"], 1, -1)
    table = rows.pivot(index="pair", columns="rater", values="score")
    kappas = []
    for one, two in combinations(table.columns, 2):
        both = table[[one, two]].dropna()
        if len(both) >= study.values.judging.kappa_items:
            kappas.append(cohen_kappa_score(both[one], both[two]))
    [kappa] = results.kappas
    assert kappa.n_pairs == len(kappas)


@pytest.mark.django_db
def test_what_was_said_beside_known_replies_is_what_pandas_says() -> None:
    rng = np.random.default_rng(8)
    keys, only = ("relevance", "fluency", "feeling"), {"feeling": ["empathetic"]}
    after = [{"key": k, "title": f"{k}?", "kind": "scale", "low": 1, "high": 5} for k in keys]
    study = make_study(
        "r", protocol="reference", bots=[], state="draft", n_items=6, after=after,
        asked_only_of=only, raters_least=1, raters_most=50, raters_wanted=50,
    )  # fmt: skip
    make_items(study, 6, reference="Known.", reference_score=3, task="chitchat")
    for number, item in enumerate(study.items.order_by("key")):
        item.responses = [{"model": BOTS[number % 2], "text": f"reply {number}"}]
        item.task = ("empathetic", "chitchat")[number % 3 == 0]
        item.context = [f"hello {number}"]
        item.save()
    study_edit(study=study, state=Study.State.COLLECTING)
    rows = []
    for person in range(7):
        leans = rng.normal(0, 0.5)
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item").order_by("item__key"):
            bot = slot.item.responses[0]["model"]
            asked = [key for key in keys if key not in only or slot.item.task in only[key]]
            scores = {k: int(np.clip(round(3 + Z[bot] + 2 * Z["listing"] * leans + rng.normal()), 1, 5)) for k in asked}
            left = 3 + int(rng.integers(0, 4) == 0)
            said = int(rng.integers(-1, 2))
            answers = {**scores, "direction": said}
            rating_add(
                task=task, target=slot.item, answers={**answers, "reference_score": left} if left != 3 else answers
            )
            rows.append((person, bot, slot.item.key, np.mean(list(scores.values())), said, left))
    table = pd.DataFrame(rows, columns=["rater", "bot", "item", "overall", "said", "left"])
    beside = study_items(study_data(study)).beside
    assert beside.n_ratings == len(table) == 42
    above = table["overall"] - table["left"]
    same = table["said"] == 0
    kept = (same & (above.abs() <= 0.5)) | (~same & (above * table["said"] > 0))
    against = (same & (above.abs() > 1)) | (~same & (above * table["said"] < 0))
    assert (beside.n_kept_rule, beside.n_contradicting) == (kept.sum(), against.sum())
    assert beside.n_revised == (table["left"] != 3).sum()
    assert beside.revised_by == pytest.approx(1)
    best = table.groupby("bot")["overall"].mean().sort_values(ascending=False)
    assert [bot.bot for bot in beside.bots] == list(best.index)
    for one in beside.bots:
        mine = table[table["bot"] == one.bot]
        assert one.n_ratings == len(mine)
        assert one.overall.mean == pytest.approx(mine["overall"].mean())
        assert one.above.mean == pytest.approx((mine["overall"] - mine["left"]).mean())
        shares = [(mine["said"] == said).mean() for said in (-1, 0, 1)]
        assert [part.mean for part in one.directions] == pytest.approx(shares)
        given = mine["overall"].to_numpy(dtype=float)
        spread = over_both(given, mine["rater"].to_numpy(), mine["item"].to_numpy())
        by_hand = ends(given.mean(), spread, ITEM_LEVEL, (1, 5))
        assert [one.overall.low, one.overall.high] == pytest.approx(by_hand)


@pytest.mark.django_db
def test_what_people_chose_is_what_statsmodels_says() -> None:
    rng = np.random.default_rng(3)
    study = make_study("c", protocol="choose", bots=[])
    options = [dimension.key for dimension in study.rubric.dimensions.all()]
    rows = []
    for _person in range(15):
        task = task_open(participant=make_participant(study))
        liked = set(rng.choice(options, 4, replace=False, p=np.array([6, 5, 4, 3, 2, 1]) / 21))
        [judgement] = requested_ratings(task)
        answers = {key: int(key in liked) for key in options}
        rating_add(task=task, target=judgement.target, answers=answers)
        rows.append(list(answers.values()))
    table = np.array(rows, dtype=float)
    approval = study_items(study_data(study)).approval
    assert approval.n_people == 15
    shares = table.mean(axis=0)
    at = np.exp(shares) / np.exp(shares).sum()
    # Limits of the shares: Wilson's by Student's t and 14 people; together by their correlations (Zou and Donner 2008).
    reach = stats.t.ppf(0.975, 14) ** 2 / 14
    middle = (shares + reach / 2) / (1 + reach)
    half = np.sqrt(reach * shares * (1 - shares) + reach**2 / 4) / (1 + reach)
    assert (shares > 0).all()
    assert (shares < 1).all()
    r = np.corrcoef(table.T)
    for n, option in enumerate(approval.options):
        count = int(table[:, n].sum())
        assert (option.option, option.n, option.approval) == (options[n], count, pytest.approx(shares[n]))
        wilson = proportion_confint(count, 15, alpha=0.05, method="wilson")
        assert (option.low, option.high) == pytest.approx(wilson)
        assert option.weight == pytest.approx(np.exp(shares[n]) / np.exp(shares).sum())
        moves = [1 if k == n else -at[k] / (1 - at[n]) for k in range(6)]
        for told, sign in ((option.weight_low, -1), (option.weight_high, 1)):
            far = [move * abs(middle[k] + np.sign(move) * sign * half[k] - shares[k]) for k, move in enumerate(moves)]
            apart = np.sqrt(sum(far[k] * far[m] * r[k, m] for k in range(6) for m in range(6)))
            assert told == pytest.approx(1 / (1 + np.exp(-np.log(at[n] / (1 - at[n])) - sign * apart)))
