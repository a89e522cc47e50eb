"""Development of judges: split of the gold set, versions, corrections, and checks of a version."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import IntegrityError, transaction
from django.db.models import F, Max, Q

from chatbots import Conversation as ChatText
from chatbots.text import is_sanitised
from chatbots.validation import InputModel, ValuesError
from evaluation.agreement.judges.development import CHAT_ID, GoldPart, assign_parts, split_groups
from evaluation.agreement.judges.gold import GoldSet
from evaluation.agreement.judges.scoring import judge_identity
from evaluation.metrics.judge import JudgeMetric, chat_lines
from webapp.conversations.models import Conversation
from webapp.core.audit_trail import JUDGE_DEVELOP, record
from webapp.core.errors import Refused
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import job_ask, job_restart
from webapp.ratings.selectors import ratings_counted
from webapp.results.benchmark import data_now
from webapp.results.fingerprint import JUDGES_KIND
from webapp.results.judges import JudgesParams, gold_read, judge_named
from webapp.results.models import JudgeDevelopment, JudgeItem, JudgeVersion
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    from django.contrib.auth.models import User

VERSION_KIND = "judge_version"
MOST_EXAMPLES, MOST_PROMPT_CHARS, MOST_WORDING_CHARS, MOST_REASON_CHARS = 20, 8_000, 1_000, 500


class VersionParams(InputModel):
    """Parameters of a check: a version and the part of the gold set."""

    version: int
    part: GoldPart


@dataclass(frozen=True, eq=False)
class DevelopmentSet:
    """Rated items of a development with their stored parts."""

    gold: GoldSet
    rows: Mapping[str, JudgeItem]

    @cached_property
    def parts(self) -> np.ndarray:
        """(N,) part of each item."""
        return np.array([self.rows[digest].part for digest in self.gold.digests], dtype=object)

    def take(self, part: GoldPart, without: Collection[str] = ()) -> GoldSet:
        """Return the items of a part, without the groups of examples.

        Args:
            without: digests of the examples.
        """
        digests = np.array(self.gold.digests, dtype=object)
        groups = np.array(split_groups(self.gold), dtype=object)
        built_on = np.isin(groups, groups[np.isin(digests, list(without))])
        return self.gold.take(np.flatnonzero((self.parts == part) & ~built_on).tolist())


def development_start(*, params: JudgesParams, test_share: float, created_by: User | None = None) -> JudgeDevelopment:
    """Split a gold set, and store the first version: the standard prompt of the judge.

    Raises:
        Refused: the set is in development already, has no rated items, or too few for two parts.
    """
    gold = gold_read(params)
    study = Study.objects.filter(key=params.study).first() if params.study else None
    # The name of the question: an empty one would allow a second split of the same ratings.
    fields = {"study": study, "file": params.file, "question": gold.dimension.key}
    exists = Refused("exists", "A judge is already in development on this question of these ratings.")
    if JudgeDevelopment.objects.filter(**fields).exists():
        raise exists
    with transaction.atomic():
        development = _create_development(
            exists,
            **fields,
            title=params.title or gold.name,
            most=params.most,
            seed=secrets.token_hex(8),
            test_share=test_share,
            created_by=created_by,
            **({"project": study.project} if study is not None else {}),
        )
        record(JUDGE_DEVELOP, development, step="start", number=development.pk)
        parts = development_set(development).parts.tolist()
        if min(parts.count("development"), parts.count("test")) < 10:
            raise Refused("too_few", "Each part needs 10 rated items; collect more ratings, or change the share.")
        judge = judge_named(params.judges[0])
        assert judge.options is not None
        options, key = judge.options, _rubric_key(judge, gold)
        prompt = options.chat_prompt if gold.unit == "chat" else options.prompt
        version_add(development, judge=judge.name, prompt=prompt, wording=options.rubric[key], created_by=created_by)
    return development


def _create_development(exists: Refused, **fields: Any) -> JudgeDevelopment:
    try:
        with transaction.atomic():
            return JudgeDevelopment.objects.create(**fields)
    except IntegrityError:  # another request was faster
        raise exists from None


def developments() -> list[JudgeDevelopment]:
    """Return the judges in development, the newest first."""
    return list(JudgeDevelopment.objects.select_related("study").prefetch_related("versions"))


def development_of(pk: int) -> JudgeDevelopment | None:
    """Return a judge in development, or None."""
    return JudgeDevelopment.objects.select_related("study").filter(pk=pk).first()


def version_numbered(development: JudgeDevelopment, number: int) -> JudgeVersion:
    """Return the version with this number; raise `Refused` without one."""
    if (version := development.versions.filter(number=number).first()) is None:
        raise Refused("not_found", "There is no such version.")
    return version


def development_set(development: JudgeDevelopment) -> DevelopmentSet:
    """Return the rated items, and store the part of each new one.

    Raises:
        Refused: as `gold_read`.
    """
    study = development.study.key if development.study is not None else ""
    params = JudgesParams(
        study=study,
        file=development.file,
        title=development.title,
        question=development.question,
        judges=("-",),
        repeats=1,
        most=development.most,
        run=None,
    )
    gold = gold_read(params)
    gold = gold.take(np.flatnonzero(np.isfinite(gold.means)).tolist())
    rows = {item.digest: item for item in development.items.all()}
    if not rows.keys() >= set(gold.digests):
        parts = assign_parts(gold, development.seed, development.test_share)
        items = zip(gold.digests, gold.keys, parts, strict=True)
        JudgeItem.objects.bulk_create(
            [
                JudgeItem(development=development, digest=digest, key=key[:500], part=part)
                for digest, key, part in items
                if digest not in rows
            ],
            ignore_conflicts=True,
        )
        rows = {item.digest: item for item in development.items.all()}
    return DevelopmentSet(gold, rows)


def _rubric_key(judge: JudgeMetric, gold: GoldSet) -> str:
    assert judge.options is not None
    return gold.dimension.key if gold.dimension.key in judge.options.rubric else next(iter(judge.options.rubric))


def version_metric(version: JudgeVersion, gold: GoldSet, examples: Sequence[JudgeItem] | None = None) -> JudgeMetric:
    """Return the judge that a version describes.

    Args:
        examples: its examples, for a version that is not stored yet.

    Raises:
        Refused: its judge or an example no longer exists, the judge has changed since, or the prompt is invalid.
    """
    judge = judge_named(version.judge)
    assert judge.options is not None
    low, high = judge.options.low, judge.options.high
    place = {digest: k for k, digest in enumerate(gold.digests)}
    rows = list(version.examples.all()) if examples is None else list(examples)
    if len(rows) < version.n_examples or any(row.digest not in place for row in rows):
        raise Refused("erased", f"{version} cannot score any more, because one of its examples no longer exists.")
    rated_examples = [*judge.options.model_dump()["examples"]]
    for row in rows:
        text = gold.texts[place[row.digest]]
        rating = round(low + (float(row.score or 0) - gold.dimension.low) / gold.width * (high - low))
        if isinstance(text, ChatText):
            texts: dict[str, Any] = {"chat": chat_lines(text)}
        else:
            texts = {"context": text.context, "reply": text.response}
        rated_examples.append({**texts, "rating": rating, "reason": row.reason})
    changes = {
        "chat_prompt" if gold.unit == "chat" else "prompt": version.prompt,
        "rubric": {**judge.options.rubric, _rubric_key(judge, gold): version.wording},
        "examples": rated_examples,
        "gives_reason": True,
    }
    try:
        metric = JudgeMetric(judge.name, str(version), **judge.options.model_dump() | changes)
    except ValuesError as error:
        raise Refused("bad_prompt", str(error)) from error
    if version.digest and judge_identity(metric, gold.unit)[0] != version.digest:
        raise Refused(
            "changed",
            f"{version} cannot score any more, because the model or scale of {judge.name} has changed. "
            "Save a new version.",
        )
    return metric


def version_add(
    development: JudgeDevelopment,
    *,
    judge: str,
    prompt: str,
    wording: str,
    examples: Collection[int] = (),
    created_by: User | None = None,
) -> JudgeVersion:
    """Store the next version.

    Args:
        judge: name of the judge whose model and scale it uses.
        wording: question as the judge reads it.
        examples: keys of corrected items.

    Raises:
        Refused: a text is too long or invalid, an example is no corrected item, or the version exists.
    """
    prompt, wording = prompt.replace("\r\n", "\n"), wording.replace("\r\n", "\n")
    for name, text, most in (("prompt", prompt, MOST_PROMPT_CHARS), ("question", wording, MOST_WORDING_CHARS)):
        if not text.strip() or len(text) > most or not is_sanitised(text):
            raise Refused("bad_text", f"The {name} must have 1 to {most:,} valid characters.")
    gold = development_set(development).gold
    with transaction.atomic():
        _lock(development)
        rows = list(development.items.filter(pk__in=examples, score__isnull=False))
        if len(rows) != len(set(examples)) or len(rows) > MOST_EXAMPLES:
            raise Refused("bad_examples", f"Choose up to {MOST_EXAMPLES} corrections of development items as examples.")
        number = (development.versions.aggregate(n=Max("number"))["n"] or 0) + 1
        texts = {"judge": judge, "prompt": prompt, "wording": wording}
        version = JudgeVersion(
            development=development, number=number, n_examples=len(rows), created_by=created_by, **texts
        )
        version.digest = judge_identity(version_metric(version, gold, rows), gold.unit)[0]
        if same := development.versions.filter(digest=version.digest).first():
            raise Refused("exists", f"{same} has the same model, prompt and examples.")
        version.save()
        version.examples.set(rows)
        record(JUDGE_DEVELOP, development, step="version", number=number)
    return version


def _lock(development: JudgeDevelopment) -> None:
    """Let versions, corrections and looks of a development wait for each other."""
    JudgeDevelopment.objects.select_for_update().get(pk=development.pk)


def correction_save(development: JudgeDevelopment, *, item: int, score: float | None, reason: str, user: User) -> None:
    """Store the correction of a development item, which later versions can use as an example; None removes it.

    Raises:
        Refused: it is a test item or does not exist, a version already uses it, or score or reason are invalid.
    """
    dimension = development_set(development).gold.dimension
    with transaction.atomic():
        _lock(development)  # a new version could take the old score
        row = development.items.filter(pk=item).first()
        if row is None or row.part == JudgeItem.Part.TEST:
            raise Refused("test_item", "Only development items can be corrected; test items never become examples.")
        if used := row.versions.first():
            raise Refused("used", f"{used} uses this correction, so it can no longer change.")
        if score is not None and not dimension.low <= score <= dimension.high:
            raise Refused("bad_score", f"The score must be from {dimension.low:g} to {dimension.high:g}.")
        if len(reason) > MOST_REASON_CHARS or not is_sanitised(reason):
            raise Refused("bad_text", f"The reason can have up to {MOST_REASON_CHARS} valid characters.")
        row.score, row.reason, row.corrected_by = score, "" if score is None else reason.strip(), user
        row.save(update_fields=["score", "reason", "corrected_by"])
        record(JUDGE_DEVELOP, development, step="correct", number=row.pk)


def version_check(version: JudgeVersion, part: GoldPart, *, created_by: User | None = None) -> Job:
    """Return the job that scores a part of the gold set with a version; each new look at the test items is counted."""
    development = version.development
    state = development.file if development.study is None else data_now(development.study)
    payload = {"version": version.pk, "part": part}
    with transaction.atomic():
        _lock(development)
        known = set(Job.objects.filter(kind=VERSION_KIND, **_of(payload)).values_list("pk", flat=True))
        job = job_ask(kind=VERSION_KIND, payload=payload, state=state, study=development.study, created_by=created_by)
        if job.pk not in known:
            record(JUDGE_DEVELOP, development, step=part, number=version.number)
        if part == "test" and job.pk not in known:
            JudgeVersion.objects.filter(pk=version.pk).update(n_test_looks=F("n_test_looks") + 1)
    return job_restart(job=job, enqueue=True) if job.state in (State.FAILED, State.CANCELLED) else job


def _of(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {f"payload__{name}": value for name, value in payload.items()}


def version_jobs(development: JudgeDevelopment) -> dict[tuple[int, str], list[Job]]:
    """Return the jobs of a development by key of the version and part, the newest first."""
    jobs: dict[tuple[int, str], list[Job]] = {}
    pks = list(development.versions.values_list("pk", flat=True))
    for job in Job.objects.filter(kind=VERSION_KIND, payload__version__in=pks).order_by("-pk"):
        jobs.setdefault((job.payload["version"], job.payload["part"]), []).append(job)
    return jobs


def count_comparisons(development: JudgeDevelopment) -> int:
    """Return the number of finished comparisons of judges on the same ratings, which score test items, too."""
    gold_set = {"study": development.study} if development.study is not None else {"payload__file": development.file}
    jobs = Job.objects.filter(kind=JUDGES_KIND, state=State.DONE, **gold_set)
    return jobs.filter(result__question=development.question).count()


def rater_comments(development: JudgeDevelopment, keys: Collection[str]) -> dict[str, list[str]]:
    """Return the raters' comments by item key; a file has none."""
    study = development.study
    comments: dict[str, list[str]] = {}
    if study is None:
        return comments
    chats = [match[0] for key in keys if (match := CHAT_ID.search(key))]
    is_of_item = Q(conversation__in=chats) | Q(turn__conversation__in=chats) | Q(item__isnull=False)
    rows = ratings_counted(study).exclude(comment="").filter(is_of_item).order_by("pk")
    columns = ("conversation", "turn__conversation", "turn__index", "item__key", "comment")
    for chat, chat_of_turn, index, item, comment in rows.values_list(*columns):
        if chat_of_turn:
            names = [f"{study.key}/{chat_of_turn}/{index}"]
        else:
            names = [str(chat)] if chat else [f"{study.key}/{item}", item]
        for key in keys:
            if any(key == name or key.startswith(f"{name} ") for name in names):
                comments.setdefault(key, []).append(comment)
    return comments


def corrections_erase(studies: Collection[int]) -> None:
    """Remove the items of conversations that no longer exist, with their corrections."""
    rows = JudgeItem.objects.filter(development__study__in=_studies_of_chats(studies))
    # The key of a conversation is its id; that of a reply contains it.
    chat_of_row = {pk: match[0] for pk, key in rows.values_list("pk", "key") if (match := CHAT_ID.search(key))}
    chats = Conversation.objects.filter(pk__in=set(chat_of_row.values())).values_list("pk", flat=True)
    stored_chats = {str(pk) for pk in chats}
    JudgeItem.objects.filter(pk__in=[pk for pk, chat in chat_of_row.items() if chat not in stored_chats]).delete()


def _studies_of_chats(studies: Collection[int]) -> list[int]:
    """Return the studies whose items are chats, as ids of imported items may look like those of chats."""
    rows = Study.objects.filter(pk__in=studies)
    return [study.pk for study in rows if not get_protocol(study).judges_items]
