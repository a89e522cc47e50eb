"""Hybrid fits from stored metrics and ratings."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.core.management import CommandError, call_command

from chatbots.encoders.emotion import EmotionHead
from chatbots.encoders.sentence import LocalSentenceEncoder
from evaluation.hybrid.features import preset_get
from evaluation.hybrid.fit import fit_hybrid
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, MetricResult
from webapp.jobs.selectors.analysis_tables import column_names
from webapp.jobs.selectors.metrics import metrics_find
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.models import Rating
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db
FEATURES = "question_bot,words_user,words_bot"
KEYS = [
    *("preset", "n_conversations", "n_bots", "target", "features", "coefficients", "bots", "intercept"),
    *("conversation_level", "bot_level", "pairs", "folds", "baselines"),
]


def compute(**where: Any) -> None:
    job = metric_run_create(**where, metrics=["words", "length", "question"], enqueue=False)
    run_job(job)


def fit(*args: str) -> dict[str, Any]:
    out = StringIO()
    call_command("fit_hybrid", "--features", FEATURES, "--json", *args, stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


def test_the_command_gives_what_the_library_gives(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k")
    compute(study=study)
    results = fit("--study", "k")
    assert set(KEYS) <= set(results)
    assert (results["n_conversations"], results["n_bots"], results["target"]) == (48, 4, "quality")
    # The same table, made here by hand.
    rows = []
    for rating in Rating.objects.filter(conversation__study=study).select_related("conversation__bot"):
        values: dict[str, Any] = {}
        for result in MetricResult.objects.filter(conversation=rating.conversation):
            values.update(result.values)
        rows.append(
            {
                "conversation": str(rating.conversation_id),
                "bot": rating.conversation.bot.bot_id,
                "participant": str(rating.participant_id),
                "quality": rating.answers["quality"],
                **values,
            }
        )
    expected = fit_hybrid(pd.DataFrame(rows), features=FEATURES.split(",")).to_json()
    for bot, mine in expected["bots"].items():
        assert results["bots"][bot]["predicted"] == pytest.approx(mine["predicted"])
        assert results["bots"][bot]["human_mean"] == pytest.approx(mine["human_mean"])
    for level in ("conversation_level", "bot_level"):
        assert results[level]["pearson"]["r"] == pytest.approx(expected[level]["pearson"]["r"])
    stored = HybridFit.objects.get()
    assert stored.result == results
    assert stored.state == "done"
    assert set(stored.identities) == {"metrics", "bots", "hybrid"}
    assert set(stored.identities["metrics"]) == {"question", "words"}
    assert len(stored.predictions["target"]) == 48
    np.testing.assert_allclose(
        np.mean(
            [p for b, p in zip(stored.predictions["bot"], stored.predictions["predicted"], strict=True) if b == "bot2"]
        ),
        results["bots"]["bot2"]["predicted"],
    )


def test_a_fit_is_kept_and_applied(rated_study: Callable[..., Study], tmp_path: Path) -> None:
    compute(study=rated_study("a"))
    compute(study=rated_study("b", seed=9))
    first = fit("--study", "a", "--output", str(tmp_path / "fit.json"))
    again = fit("--study", "a", "--fit", str(tmp_path / "fit.json"))
    for bot in first["bots"]:
        assert again["bots"][bot]["predicted"] == pytest.approx(first["bots"][bot]["predicted"])
    other = fit("--study", "b", "--fit", str(tmp_path / "fit.json"))
    trained = fit("--study", "b", "--train-study", "a")
    assert other["bots"] == trained["bots"]
    assert other["n_conversations"] == 48
    assert all("rank" in bot for bot in trained["bots"].values())
    same = fit("--study", "b", "--train-study", "a", "--same-instrument")
    assert all(bot["predicted"] is not None for bot in same["bots"].values())
    Study.objects.get(key="b").rubric.dimensions.filter(key="quality").update(question="How bad?")
    with pytest.raises(CommandError, match="not the same instrument: quality has different wordings"):
        fit("--study", "b", "--train-study", "a", "--same-instrument")
    (tmp_path / "bad.json").write_text('{"format": "other"}')
    with pytest.raises(CommandError, match="not a stored hybrid fit"):
        fit("--study", "a", "--fit", str(tmp_path / "bad.json"))


def test_a_kept_fit_is_held_against_the_ratings_of_now(rated_study: Callable[..., Study], tmp_path: Path) -> None:
    study = rated_study("k")
    compute(study=study)
    path = str(tmp_path / "fit.json")
    first = fit("--study", "k", "--preset", "strong", "--output", path)
    assert fit("--study", "k", "--fit", path)["held_against"] == "fit"
    for rating in Rating.objects.filter(conversation__study=study):
        rating.answers["quality"] = 8 - rating.answers["quality"]
        rating.save()
    # The raters and how they differ stay as they were, so each mean is mirrored.
    again = fit("--study", "k", "--fit", path)
    for bot, one in again["bots"].items():
        assert one["human_mean"] == pytest.approx(8 - first["bots"][bot]["human_mean"])
        assert one["adjusted_mean"] == pytest.approx(8 - first["bots"][bot]["adjusted_mean"])
        assert "combined" not in one
    r = again["bot_level"]["pearson"]["r"]
    assert r == pytest.approx(-first["bot_level"]["pearson"]["r"])
    assert again["held_against"] == "given"


def test_self_play_of_a_bot_without_ratings_is_predicted(rated_study: Callable[..., Study]) -> None:
    compute(study=rated_study("k"))
    run = run_create(bots=["eliza"], n_conversations=4, n_turns=6, enqueue=False)
    run_job(run)
    with pytest.raises(CommandError, match=f"compute_metrics --run {run.pk}` first"):
        fit("--study", "k", "--run", str(run.pk))
    compute(run=run)
    bot = fit("--study", "k", "--run", str(run.pk))["bots"]["eliza"]
    assert bot["human_mean"] is None
    assert bot["n"] == 0
    low, high = bot["predicted_selfplay_ci90"]
    assert low < bot["predicted_selfplay"] < high


def test_what_cannot_be_fitted_is_one_clear_line(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k", n_bots=2)
    for args, told in (
        (["--study", "k"], r"lack metrics: question \(24 of 24\).*compute_metrics --study k` first"),
        (["--study", "nope"], "there is no study 'nope'"),
        (["--study", "k", "--run", "3"], "there is no self-play run 3"),
    ):
        with pytest.raises(CommandError, match=told) as error:
            fit(*args)
        assert error.value.returncode == 1
    compute(study=study)
    with pytest.raises(CommandError, match="leave-bot-out needs at least"):
        fit("--study", "k")
    assert set(HybridFit.objects.values_list("state", flat=True)) == {"failed"}


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--target", "qualty", r"no rating dimension of study k 'qualty'; did you mean quality"),
        ("--preset", "papre", r"no preset 'papre'.*did you mean paper"),
        ("--features", "question_bto", r"no metric column 'question_bto'; did you mean question_bot"),
        ("--exclude-bots", "nobody-like-this", r"no bot of study k 'nobody-like-this'"),
    ],
)
def test_a_mistyped_argument_is_named_and_leaves_no_fit(
    rated_study: Callable[..., Study], option: str, value: str, told: str
) -> None:
    rated_study("k")
    with pytest.raises(CommandError, match=told) as error:
        call_command("fit_hybrid", "--study", "k", option, value, stderr=StringIO())
    assert error.value.returncode == 2
    assert not HybridFit.objects.exists()


@pytest.fixture
def encoders_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[str]:
    """Return the calls of encoders and of the emotion head during the test, where nothing was encoded before it."""
    settings.DATA_DIR = tmp_path / "data"
    called: list[str] = []

    def count(of: type, name: str) -> None:
        real = getattr(of, name)

        def counted(self: Any, texts: Any) -> Any:
            called.append(f"{of.__name__}.{name}")
            return real(self, texts)

        monkeypatch.setattr(of, name, counted)

    count(LocalSentenceEncoder, "encode")
    count(EmotionHead, "from_embeddings")
    return called


def test_a_kept_fit_of_a_retired_preset_names_the_version_that_applies_it(rated_study: Callable[..., Study]) -> None:
    rated_study("s", n_bots=3, n_each=3)
    kept = Path(__file__).parents[2] / "cases" / "kept_fit_strong_2.json"
    for asked in (["--fit", str(kept)], ["--preset", "strong@2"]):
        with pytest.raises(CommandError, match=r"strong@2. is retired.* Confab 0\.9\.0 up to revision 28f5f300"):
            call_command("fit_hybrid", "--study", "s", *asked, stdout=StringIO(), stderr=StringIO())
    assert not HybridFit.objects.exists()


def test_a_fit_of_stored_metrics_encodes_nothing(rated_study: Callable[..., Study], encoders_called: list[str]) -> None:
    study = rated_study("k", n_bots=3, n_each=3)
    run_job(metric_run_create(study=study, metrics=["emotions", "reactions"], enqueue=False))
    assert set(encoders_called) == {"LocalSentenceEncoder.encode", "EmotionHead.from_embeddings"}
    encoders_called.clear()
    read = column_names(metrics_find(["emotions", "reactions"]))
    features = ",".join(name for name in preset_get("strong").features if name in read)
    asked = ["--study", "k", "--preset", "strong", "--features", features]
    call_command("fit_hybrid", *asked, stdout=StringIO(), stderr=StringIO())
    assert encoders_called == []
