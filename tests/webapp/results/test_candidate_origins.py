"""Single replies in a study, and what was used to build a candidate: it does not test the candidate."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from evaluation.metrics.registry import metric_get, metrics
from evaluation.replacement.result import CandidateVerdict, Settlement
from tests.builders import make_participants, make_study, rubric_default
from tests.evaluation.agreement.judges.fake_judge import PROMPT, RuleJudge
from tests.webapp.jobs.test_simulation import create, done, talked
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, SelfPlayConversation, State
from webapp.ratings.models import Rating
from webapp.results.benchmark import benchmark_ask
from webapp.results.cache import AnalysisKey, compute_now, get_result
from webapp.results.candidate_origins import Origins, origin_of_metric, origin_of_simulation
from webapp.results.judges import JudgesParams, judges_ask
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
N, BOTS = 20, [f"b{k}" for k in range(6)]
QUOTED = "b0 says the seventh thing 7"


def text_of(bot: str, number: int) -> str:
    return QUOTED if (bot, number) == ("b0", 7) else f"{bot} says thing {number}"


@pytest.fixture
def study() -> Study:
    """Make a study of 120 replies of six bots, each rated twice."""
    study = make_study("items", protocol="annotate", bots=[], state="draft", rubric=rubric_default(), n_items=3)
    items = [
        item_add(
            study=study,
            key=f"{bot}-{number}",
            context=[f"question {number}"],
            responses=[{"model": bot, "text": text_of(bot, number)}],
        )
        for bot in BOTS
        for number in range(N)
    ]
    study = study_edit(study=study, state=Study.State.COLLECTING)
    people = make_participants(study, 10)
    rng = np.random.default_rng(48)
    Rating.objects.bulk_create(
        Rating(
            item=item,
            participant=people[(k + j) % 10],
            rubric=study.rubric,
            answers={"quality": int(np.clip(round(1.5 + k // N + rng.normal(0, 0.6)), 1, 7)), "fluency": 4},
            submitted_at=timezone.now(),
        )
        for k, item in enumerate(items)
        for j in range(2)
    )
    return study


def of_bot(text: str, repeat: int) -> float:
    return 1.5 + BOTS.index(text.split()[0]) + (sum(map(ord, text)) % 7 - 3) / 20


@pytest.fixture
def judges() -> Iterator[dict[str, RuleJudge]]:
    prompts = {"plain": PROMPT, "few_shot": f"{PROMPT} Example: “{QUOTED}”: 2. Another: {{reply}}"}
    made = {
        name: RuleJudge(of_bot, name=name, title=name, prompt=prompt, low=1, high=7) for name, prompt in prompts.items()
    }
    for judge in made.values():
        metrics.add(judge)
    yield made
    for name in made:
        metrics.discard(name)


def finish(job: Job) -> None:
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error


def verdicts(study: Study) -> dict[str, CandidateVerdict]:
    computed = compute_now(AnalysisKey(Study.objects.get(pk=study.pk), "replacement"), wait=lambda: None)
    assert computed is not None
    assert computed.result.unit == "reply"
    return {verdict.title: verdict for verdict in computed.result.candidates}


def test_replies_have_a_verdict_and_quoted_ones_do_not_test_the_judge(study: Study, judges: Any) -> None:
    finish(judges_ask(params=JudgesParams(study=study.key, question="quality", judges=("plain", "few_shot"))))
    finish(benchmark_ask(metrics=["words_bot"], study=study))
    by_title = verdicts(study)
    assert set(by_title) == {"Judge (plain)", "Judge (few_shot)", "Panel of 2 judges", "Metric (Words in the reply)"}
    left_out = {title: verdict.n_left_out for title, verdict in by_title.items()}
    assert left_out == {
        "Judge (plain)": 0,
        "Judge (few_shot)": 1,
        "Panel of 2 judges": 1,
        "Metric (Words in the reply)": 0,
    }
    n_ratings = sum(bot.n_ratings for bot in by_title["Judge (few_shot)"].equality.bots)
    assert n_ratings == 2 * (len(BOTS) * N - 1)
    assert by_title["Judge (plain)"].standing in ("yes", "ranking")
    assert by_title["Judge (plain)"].ranking.n_bots == 6


def test_a_judge_whose_prompt_is_gone_is_not_known(study: Study, judges: Any) -> None:
    finish(judges_ask(params=JudgesParams(study=study.key, question="quality", judges=("plain",))))
    key = AnalysisKey(study, "replacement")
    verdicts(study)
    assert get_result(key).is_current
    metrics.discard("plain")
    Job.objects.filter(kind="judges").update(ended_at=timezone.now())
    [verdict] = verdicts(study).values()
    assert verdict.standing == "not_known"
    assert verdict.ranking.reason is not None
    assert (verdict.ranking.reason.code, verdict.ranking.settled_by) == ("prompt_gone", Settlement("again"))


def test_without_texts_the_verdict_says_so(study: Study) -> None:
    study.items.update(responses=[{"model": "b0", "text": ""}])
    computed = compute_now(AnalysisKey(Study.objects.get(pk=study.pk), "replacement"), wait=lambda: None)
    assert computed is not None
    assert computed.result.sentence == "There is no candidate: the texts of the rated replies were erased."


def test_sets_that_a_metric_was_developed_on_are_left_out_or_unknown() -> None:
    names = ["usr/topical/1", "mine/1"]
    origins = Origins()
    for metric in ("usr", "words"):
        origin_of_metric(origins, metric, metric_get(metric), names)
    origin_of_metric(origins, "gone", None, names)
    assert origins.built_on == {"usr": frozenset({"usr/topical/1"}), "words": frozenset()}
    assert {name: reason.code for name, reason in origins.unknown.items()} == {"gone": "unknown_training"}


def test_simulated_chats_that_repeat_a_bots_own_chats_are_left_out() -> None:
    study = talked()
    run = done(create(study))
    origins = Origins()
    origin_of_simulation(origins, run, "replayed")
    assert origins.built_on == {"replayed": frozenset()}, "messages come from chats with the other bot"
    link = SelfPlayConversation.objects.filter(run=run, bot_id="eliza").first()
    link.sources = [str(study.conversations.filter(bot__bot_id="eliza").first().pk)]
    link.save()
    origin_of_simulation(origins, run, "replayed")
    assert origins.built_on == {"replayed": frozenset({str(link.conversation_id)})}
    origin_of_simulation(origins, run, "trained:mine")
    origin_of_simulation(origins, run, "trained:hred-demo")
    assert list(origins.unknown) == ["trained:mine"]
