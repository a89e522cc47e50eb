"""Answers about language models in the datasheet, from what is stored about bots, judges and simulations.

The questions are the eight guidelines for studies that involve language models, of S. Baltes et al. (2025): Guidelines
for Empirical Studies in Software Engineering involving Large Language Models. arXiv 2508.15503.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Min

from evaluation.agreement.judges.scoring import judge_identity
from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.registry import metric_list
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.jobs.models import Job, State
from webapp.results.fingerprint import JUDGES_KIND
from webapp.studies.models import Study

_PROMPTS = ("system_prompt", "prompt", "chat_prompt", "rubric")
_NOT_PARAMETERS = {*_PROMPTS, "model", "base_url", "api_key_env", "secret", "price_in", "price_out", "examples"}


@dataclass(frozen=True, slots=True)
class UsedModel:
    """Language model with its role, parameters and days of use.

    Attributes:
        served_by: address of the service; empty for a local model.
        first, last: first and last use; None if unknown.
    """

    role: str
    name: str
    model: str
    version: str
    params: Mapping[str, Any]
    served_by: str = ""
    first: datetime | None = None
    last: datetime | None = None

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts by name."""
        return {name: str(self.params[name]) for name in _PROMPTS if self.params.get(name)}


def models_used(study: Study) -> list[UsedModel]:
    """Return the language models of the study's bots, partners in simulations and judges, by role and name."""
    return [*_bots(study), *_judges(study)]


def _bots(study: Study) -> Iterator[UsedModel]:
    sources = {"bot": Conversation.objects.filter(study=study, is_synthetic=False)}
    runs = study.simulations.values("pk")
    sources["bot in simulated chats"] = Conversation.objects.filter(selfplay__run__in=runs)
    for role, conversations in sources.items():
        dates = conversations.order_by().values_list("bot").annotate(Min("created_at"), Max("created_at"))
        days = {pk: (first, last) for pk, first, last in dates}
        for bot in BotVersion.objects.filter(pk__in=days).order_by("bot_id", "created_at"):
            if bot.params.get("model"):
                address = str(bot.params.get("base_url") or "")
                model = str(bot.params["model"])
                yield UsedModel(role, bot.title, model, bot.version, bot.params, address, *days[bot.pk])


def _judges(study: Study) -> Iterator[UsedModel]:
    known = {metric.name: metric for metric in metric_list() if isinstance(metric, JudgeMetric)}
    jobs = Job.objects.filter(kind=JUDGES_KIND, study=study, state=State.DONE, result__isnull=False)
    seen: set[str] = set()
    for job in jobs.order_by("-pk"):
        result = job.result or {}
        for judge in result.get("judges", ()):
            name = str(judge.get("judge", ""))
            if name in seen or not judge.get("model"):
                continue
            seen.add(name)
            options = _options_used(known.get(name), str(result.get("unit")), str(judge.get("identity")))
            prompt = {"prompt digest": str(judge.get("prompt", ""))}
            yield UsedModel(
                "judge",
                str(judge["title"]),
                str(judge["model"]),
                "",
                {**options, **prompt},
                "",
                job.started_at,
                job.ended_at,
            )


def _options_used(metric: JudgeMetric | None, unit: str, identity: str) -> dict[str, Any]:
    """Return a judge's options; unknown if they have changed since the comparison, or the judge is gone."""
    if metric is None or metric.options is None or judge_identity(metric, unit)[0] != identity:
        return {"options": "unknown, because they have changed since"}
    return metric.options.model_dump(mode="json")


def llm_answers(study: Study) -> dict[str, str] | None:
    """Return the answers by question number; None if the study uses no language model."""
    models = models_used(study)
    if not models:
        return None
    judged = [model for model in models if model.role == "judge"]
    answers = {
        "L.1": _each(models, lambda used: f"{used.name}: {used.role}"),
        "L.2.1": _each(models, _version),
        "L.2.2": _each(models, _parameters),
        "L.2.3": _each(models, _dates),
        "L.3.1": _filters(study),
        "L.3.2": _each([used for used in models if used.prompts], _prompts),
        "L.4": "All messages, with their times, are in the tables of the data package."
        + (" Judges' scores remain with their comparisons on the server." if judged else ""),
        "L.7": _validation(study) if judged else "All ratings are by people; no model rated in their place.",
    }
    return {number: text for number, text in answers.items() if text}


def _each(models: list[UsedModel], describe: Any) -> str:
    return "; ".join(dict.fromkeys(filter(None, map(describe, models)))) + "." if models else ""


def _version(used: UsedModel) -> str:
    where = f", served by {used.served_by}" if used.served_by else ""
    return f"{used.name}: {used.model}{f' (entry version {used.version})' if used.version else ''}{where}"


def _parameters(used: UsedModel) -> str:
    parameters = {
        name: value for name, value in used.params.items() if name not in _NOT_PARAMETERS and value not in (None, "")
    }
    if not parameters:
        return f"{used.name}: none stored, so those of the service"
    return f"{used.name}: " + ", ".join(f"{name} {value}" for name, value in sorted(parameters.items()))


def _dates(used: UsedModel) -> str:
    if used.first is None or used.last is None:
        return ""
    return f"{used.name}: {used.first:%Y-%m-%d} to {used.last:%Y-%m-%d}"


def _prompts(used: UsedModel) -> str:
    return f"{used.name}: " + " / ".join(f"{name}: “{' '.join(text.split())}”" for name, text in used.prompts.items())


def _filters(study: Study) -> str:
    used = study.values.filtering.model_dump(exclude_defaults=True)
    return (
        f"Reply filters: {', '.join(sorted(used))}." if used else "Replies reach participants as the models wrote them."
    )


def _validation(study: Study) -> str:
    """Describe how judges were compared with people."""
    job = (
        Job.objects.filter(kind=JUDGES_KIND, study=study, state=State.DONE, result__isnull=False)
        .order_by("-pk")
        .first()
    )
    result = (job.result or {}) if job is not None else {}
    sentences = [str(sentence) for sentence in result.get("sentences", ())]
    return " ".join(["Judges were compared with people's ratings of the same chats.", *sentences])
