"""Development of a judge at the doors: split, versions side by side, corrections, test items, panels and drift."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from scipy import stats

from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import MemoryMeter, meter_get, meter_set
from chatbots.registry import bots
from evaluation.agreement.judges.gold import gold_of_replies
from evaluation.agreement.metric_agreement import judgements_of
from evaluation.data.items import JudgedItem
from evaluation.metrics.registry import metrics
from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, crowd, items
from tests.markup import flat
from tests.webapp.dashboard.judge_server import judge_server
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.ratings.models import Rating
from webapp.results.benchmark_data import benchmark_upload_keep
from webapp.results.judge_versions import development_set
from webapp.results.judges import JudgesParams, judges_ask
from webapp.results.models import JudgeDevelopment, JudgeItem, JudgeVersion

pytestmark = pytest.mark.django_db
ADDRESS = "/dashboard/metrics/judges/develop/"
RNG = np.random.default_rng(5)
N = 60
TRUTH, RATINGS = crowd(N, 4, RNG)
NOISE = RNG.uniform(1, 5, N)
ROWS = items(RATINGS, [f"reply {k}" for k in range(N)])


@pytest.fixture
def requests() -> Iterator[list[dict[str, Any]]]:
    """Register a judge behind HTTP."""
    meter = meter_get()
    meter_set(MemoryMeter())  # the test's transaction locks the database for other threads
    with judge_server(TRUTH.tolist(), NOISE.tolist()) as (port, sent):
        bots.add(EndpointBot(name="e", model="m", base_url=f"http://127.0.0.1:{port}/v1", temperature=0))
        yield sent
        bots.discard("e")
    meter_set(meter)


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def upload() -> str:
    content = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    file = benchmark_upload_keep(SimpleUploadedFile("rated.jsonl", content))
    Job.objects.create(kind="benchmark", payload={"study": "", "file": file, "title": "rated.jsonl", "metrics": []})
    return file


def start(client: Client, gold: str, **fields: Any) -> JudgeDevelopment:
    data = {"gold": gold, "question": "", "judge": "judge_e", "test_percent": 50, "most": 300, **fields}
    response = client.post(ADDRESS, data)
    assert response.status_code == 302, flat(response.content.decode())
    return JudgeDevelopment.objects.get()


def post(client: Client, development: JudgeDevelopment, action: str, **fields: Any) -> Any:
    return client.post(f"{ADDRESS}{development.pk}/", {"action": action, **fields})


def check(client: Client, development: JudgeDevelopment, part: str, number: int) -> Job:
    assert post(client, development, part, number=number).status_code == 302
    job = Job.objects.filter(kind="judge_version").latest("pk")
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    return job


def page(client: Client, development: JudgeDevelopment, query: str = "") -> str:
    response = client.get(f"{ADDRESS}{development.pk}/{query}")
    assert response.status_code == 200
    return flat(response.content.decode())


def test_a_judge_is_developed_from_the_split_to_the_test(staff: Client, requests: list[dict[str, Any]]) -> None:
    development = start(staff, f"file:{upload()}")
    parts = dict(development.items.values_list("digest", "part"))
    assert len(parts) == N
    assert "It is not known yet how well a version agrees with people on test items." in page(staff, development)
    first = check(staff, development, "development", 1).result
    development_keys = set(development.items.filter(part="development").values_list("digest", flat=True))
    assert set(first["digests"]) <= development_keys
    assert first["n_items"] == len(development_keys)

    html = page(staff, development)
    assert "It is number" in html, "the reason of the judge is next to its largest errors"
    assert sum("cannot rate" in reason for reason in first["reasons"]) == sum(
        key == "5 m" for key in development.items.filter(part="development").values_list("key", flat=True)
    )
    gaps = staff.get(f"{ADDRESS}{development.pk}/").context["gaps"]
    differences = [abs(gap.score - gap.mean) for gap in gaps]
    assert differences == sorted(differences, reverse=True)
    worst = gaps[0].row
    assert post(staff, development, "correct", item=worst.pk, score=2, reason="It repeats itself.").status_code == 302
    prompt = JudgeVersion.objects.get().prompt
    sent = post(
        staff, development, "version", judge="judge_e", prompt=prompt.replace("judge the", "judge only the"),
        wording="How good is it?", examples=[worst.pk],
    )  # fmt: skip
    assert sent.status_code == 302
    second = JudgeVersion.objects.get(number=2)
    result = check(staff, development, "development", 2).result
    assert worst.digest not in result["digests"], "an example does not test the version that has seen it"
    shown = requests[-1]["messages"][-1]["content"]
    assert "An earlier conversation, as an example:" in shown
    assert "It repeats itself.\nRating: 2" in shown
    properties = requests[-1]["response_format"]["json_schema"]["schema"]["properties"]
    assert list(properties) == ["reason", "rating"]

    html = page(staff, development)
    assert "Version 2 agrees more with people than version 1 on the" in html
    comparison = staff.get(f"{ADDRESS}{development.pk}/").context["comparison"]
    assert ("insert", " only") in comparison.words
    assert "only</ins>" in html
    gold = gold_of_replies(judgements_of(JudgedItem.model_validate(row) for row in ROWS))
    scores = {v: dict(zip(r["digests"], r["scores"][0], strict=True)) for v, r in ((1, first), (2, result))}
    common = [
        k for k, digest in enumerate(gold.digests)
        if all(scores[v].get(digest) is not None for v in (1, 2))
    ]  # fmt: skip
    means = [gold.means[k] for k in common]
    rho = [
        stats.spearmanr([scores[v][gold.digests[k]] for k in common], means).statistic for v in (1, 2)
    ]  # fmt: skip
    assert f"difference {rho[1] - rho[0]:.2f} (95 %".replace("0.", ".") in comparison.sentence
    agreement = comparison.table.table.rows[0]
    assert [agreement[k].raw[0] for k in (1, 3)] == pytest.approx(rho)

    tested = check(staff, development, "test", 2)
    assert not {"scores", "digests", "confusion"} & tested.result.keys()
    html = page(staff, development)
    on_test = [k for k, digest in enumerate(gold.digests) if parts[digest] == "test" and k != 5]
    expected = stats.spearmanr([min(max(round(TRUTH[k]), 1), 5) for k in on_test], [gold.means[k] for k in on_test])
    assert (
        f"Version 2 agrees with people on {len(on_test)} test items: {expected.statistic:.2f}".replace("0.", ".")
        in html
    )
    assert "The test items have been used 1 time, for 1 version. No version was chosen by them." in html
    post(staff, development, "test", number=2)
    second.refresh_from_db()
    assert second.n_test_looks == 1, "the same check is not a second look"
    check(staff, development, "test", 1)
    assert "The test items have been used 2 times, for 2 versions. If you chose among versions by them" in page(
        staff, development
    )


def test_test_items_and_wrong_input_never_become_examples(staff: Client, requests: list[dict[str, Any]]) -> None:
    file = upload()
    development = start(staff, f"file:{file}")
    for question in ("", "overall"):
        fields = {"gold": f"file:{file}", "judge": "judge_e", "test_percent": 20, "most": 300, "question": question}
        again = staff.post(ADDRESS, fields)
        assert again.status_code == 400
        assert "A judge is already in development" in again.content.decode(), "the default question has a name, too"
    too_many = staff.post(ADDRESS, fields | {"most": 5000})
    assert too_many.status_code == 400
    assert "less than or equal to 1000" in too_many.content.decode()
    test_item = development.items.filter(part="test").first()
    refused = post(staff, development, "correct", item=test_item.pk, score=3, reason="x")
    assert refused.status_code == 400
    assert "test items never become examples" in refused.content.decode()
    version = {"judge": "judge_e", "prompt": "{reply} {question}", "wording": "Is it good?"}
    item = development.items.filter(part="development").first()
    for fields, error in (
        (version | {"examples": [test_item.pk]}, "Corrections as examples"),
        (version | {"prompt": "no blanks"}, "prompt must contain {reply}"),
        (version | {"prompt": "{reply} {question} {other}"}, "cannot be filled in"),
        (version | {"prompt": "{reply} {question}\0"}, "U+0000"),
        (version | {"prompt": "{reply}{question}" + "x" * 8000}, "at most 8000 characters"),
        (version | {"judge": "nobody"}, "Select a valid choice"),
    ):
        response = post(staff, development, "version", **fields)
        assert response.status_code == 400
        assert error in flat(response.content.decode()), error
    for fields, error in (({"score": 9}, "from 1 to 5"), ({"score": "nan"}, "number"), ({"reason": "a\0"}, "U+0000")):
        response = post(staff, development, "correct", item=item.pk, **{"score": 3, "reason": "", **fields})
        assert response.status_code == 400
        assert error in flat(response.content.decode())
    assert post(staff, development, "test", number="9" * 30).status_code == 400
    assert post(staff, development, "other").status_code == 400
    assert not development.items.filter(score__isnull=False).exists()
    same = JudgeVersion.objects.get()
    response = post(staff, development, "version", judge=same.judge, prompt=same.prompt, wording=same.wording)
    assert response.status_code == 400
    assert "Version 1 has the same model, prompt and examples" in flat(response.content.decode())
    reader = signed_in(Right.READ, username="reader")
    assert post(reader, development, "test", number=1).status_code == 403
    assert "Write the next version" not in page(reader, development)
    assert not Job.objects.filter(kind="judge_version").exists()


def test_a_correction_of_a_chat_is_erased_with_its_participant(
    staff: Client, requests: list[dict[str, Any]], django_capture_on_commit_callbacks: Any
) -> None:
    study = make_study("talk")
    for k in range(30):
        chat = make_conversation(study, n_exchanges=3)
        chat.turns.filter(index=1).update(text=f"reply {k}")
        rating = make_rating(chat, quality=1 + k % 5).rating
        Rating.objects.filter(pk=rating.pk).update(comment=f"Comment {chat.pk}")
    # A split of so few may leave a part too small; another development draws again.
    for _try in range(20):
        response = staff.post(
            ADDRESS, {"gold": "study:talk", "question": "", "judge": "judge_e", "test_percent": 50, "most": 300}
        )
        if response.status_code == 302:
            break
    development = JudgeDevelopment.objects.get()
    check(staff, development, "development", 1)
    html = page(staff, development)
    gap = staff.get(f"{ADDRESS}{development.pk}/").context["gaps"][0]
    assert f"Comment {gap.conversation}" in html, "the reason of people"
    post(staff, development, "correct", item=gap.row.pk, score=2, reason="Too short.")
    version = JudgeVersion.objects.get()
    fields = {"judge": version.judge, "prompt": version.prompt, "wording": version.wording}
    assert post(staff, development, "version", **fields, examples=[gap.row.pk]).status_code == 302
    participant = study.participants.get(conversations=gap.conversation)
    with django_capture_on_commit_callbacks(execute=True):
        call_command("erase", study="talk", participant=str(participant.pk), json=True)
    assert not JudgeItem.objects.filter(pk=gap.row.pk).exists()
    assert not Job.objects.filter(kind="judge_version").exists()
    post(staff, development, "development", number=2)
    job = Job.objects.filter(kind="judge_version").get()
    run_job(job)
    assert "one of its examples no longer exists" in page(staff, development)


def test_later_items_get_a_part_and_earlier_ones_keep_theirs(staff: Client, requests: list[dict[str, Any]]) -> None:
    development = start(staff, f"file:{upload()}", test_percent=40)
    before = dict(development.items.values_list("digest", "part"))
    lost = list(before)[:5]
    development.items.filter(digest__in=lost).delete()
    development_set(development)
    assert dict(development.items.values_list("digest", "part")) == before


def test_a_version_does_not_score_with_another_model(staff: Client, requests: list[dict[str, Any]]) -> None:
    development = start(staff, f"file:{upload()}")
    bots.discard("e")
    bots.add(EndpointBot(name="e", model="other", base_url="http://127.0.0.1:9/v1", temperature=0))
    post(staff, development, "test", number=1)
    run_job(Job.objects.get(kind="judge_version"))
    assert "the model or scale of judge_e has changed" in page(staff, development)
    assert not requests


def test_comparisons_that_scored_the_test_items_are_shown(staff: Client, requests: list[dict[str, Any]]) -> None:
    development = start(staff, f"file:{upload()}")
    assert "on the page Judges" not in page(staff, development)
    for file, question in ((development.file, "overall"), (development.file, "other"), ("another", "overall")):
        Job.objects.create(kind="judges", payload={"file": file}, result={"question": question}, state=State.DONE)
    assert "1 comparison on the page Judges scored the same ratings" in page(staff, development)


def test_panels_combine_judges_and_drift_is_checked_from_the_page(staff: Client) -> None:
    def rule(noise: float) -> Callable[[str, int], float]:
        return lambda text, repeat: float(TRUTH[int(text.split()[1])] + noise)

    rules = {
        name: RuleJudge(rule(noise), name=name, title=name) for name, noise in (("a", 0.0), ("b", 0.4), ("c", -0.6))
    }
    for judge in rules.values():
        metrics.add(judge)
    try:
        job = judges_ask(params=JudgesParams(file=upload(), title="rated.jsonl", judges=tuple(rules)))
        run_job(job)
        job.refresh_from_db()
        assert job.state == State.DONE, job.error
        mean, vote = job.result["panels"]
        scores = np.array([judge["scores"][0] for judge in job.result["judges"]])
        assert mean["scores"][0] == pytest.approx(scores.mean(axis=0))
        rounded = np.rint(scores)
        by_hand = []
        for column in rounded.T:
            values, counts = np.unique(column, return_counts=True)
            by_hand.append(values[counts == counts.max()].mean())
        assert vote["scores"][0] == pytest.approx(by_hand)
        html = flat(staff.get("/dashboard/metrics/judges/").content.decode())
        assert "Panel of 3 judges, mean" in html
        assert "Panel of 3 judges, vote" in html
        address = f"/dashboard/metrics/judges/{job.pk}/drift/"
        assert signed_in(Right.READ, username="reader").post(address).status_code == 403
        assert staff.post(address).status_code == 302
        staff.post(address)
        [drift] = Job.objects.filter(kind="judge_drift")
        run_job(drift)
    finally:
        for name in rules:
            metrics.discard(name)
    html = flat(staff.get("/dashboard/metrics/judges/").content.decode())
    assert "There is no evidence of drift of a" in html
    assert "Checked on" in html
    assert staff.post("/dashboard/metrics/judges/999999/drift/").status_code == 404
