"""Plans of studies: what is frozen when a study opens, and later deviations.

A plan has what a preregistration has: hypotheses, margin, level, questions, bots, closing rules and exclusions. It is
stored with its digest when the study opens. A change after that stores the new plan next to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from evaluation.number_format import percent
from webapp.studies.models import Study, StudyPlan
from webapp.studies.rubrics import post_task_questions

PLAN_FORMAT = "confab-plan-1"
PLAN_TITLES = {
    "protocol": "Protocol",
    "rule": "Assignment",
    "bots": "Bots",
    "questions": "Questions",
    "conditions": "Conditions",
    "helper": "Judge that helps to draw items",
    "hypotheses": "Hypotheses",
    "smallest_difference": "Margin: smallest difference of interest",
    "level": "Confidence level",
    "wanted": "Completed tasks wanted",
    "closing": "Closing rules",
    "exclusions": "Exclusions",
    "population": "Population that results are weighted to",
    "smallest_group": "Smallest group of participants shown",
    "checks": "Checks whose failure excludes",
}
"""Titles of the parts of a plan, in order."""


def plan_document(study: Study) -> dict[str, Any]:
    """Return the study's present plan as JSON values; equal plans have equal documents."""
    values = study.values
    quotas, closing = values.quotas, values.closing
    return {
        "format": PLAN_FORMAT,
        "study": study.key,
        "protocol": study.protocol,
        "rule": study.rule,
        "bots": list(values.bots),
        "questions": [
            f"{question.title} ({question.low} to {question.high})" if question.kind == "scale" else question.title
            for question in post_task_questions(study.version)
        ],
        "conditions": [factor.title for factor in values.conditions.factors],
        "helper": [name for name in (values.helping.helper, values.helping.helper_uncertainty) if name],
        "hypotheses": _lines(values.planning.hypotheses),
        "smallest_difference": _number(quotas.smallest_difference),
        "level": _number(quotas.level),
        "wanted": quotas.n_conversations_wanted,
        "closing": {
            "at_planned_number": closing.closes_when_full,
            "budget": _number(closing.budget),
            "last_day": closing.closes_on,
        },
        "exclusions": _lines(values.planning.exclusions),
        "population": _lines(values.planning.margins),
        "smallest_group": values.planning.smallest_group,
        "checks": [checks.description for checks in values.check_lists if checks.description],
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def plan_json(document: Mapping[str, Any]) -> str:
    """Return the text of `plan.json`, whose digest is stored."""
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def plan_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of `plan.json`, in hexadecimal digits."""
    return hashlib.sha256(plan_json(document).encode()).hexdigest()


def plan_freeze(*, study: Study) -> StudyPlan | None:
    """Store the plan of a study that opens, or that was opened before and has changed.

    The caller holds the lock of the study's row. Returns the newest plan; None if the study was never open.
    """
    newest = study.plans.order_by("-number").first()
    if newest is None and study.state != Study.State.COLLECTING:
        return None
    document = plan_document(study)
    # Compare parts, not digests: the newest plan lacks parts that later releases have added.
    if newest is not None and all(document.get(part) == value for part, value in newest.document.items()):
        return newest
    return StudyPlan.objects.create(
        study=study,
        number=newest.number + 1 if newest is not None else 1,
        document=document,
        digest=plan_digest(document),
        n_participants=study.participants.filter(is_synthetic=False).count(),
    )


@dataclass(frozen=True, slots=True)
class PlanChange:
    """Part of the plan that changed after the study had opened.

    Attributes:
        part: its name in the document.
        plan: the later plan.
        before, after: values in words.
    """

    part: str
    plan: StudyPlan
    before: str
    after: str


def plan_deviations(plans: list[StudyPlan]) -> list[PlanChange]:
    """Return the changes between consecutive plans, oldest first."""
    return [
        PlanChange(part, later, plan_part(earlier.document, part), plan_part(later.document, part))
        for earlier, later in pairwise(plans)
        for part in PLAN_TITLES
        if part in earlier.document and earlier.document[part] != later.document.get(part)
    ]


def plan_part(document: Mapping[str, Any], part: str) -> str:
    """Return a part of a plan in words."""
    value = document.get(part)
    if part == "closing" and isinstance(value, Mapping):
        rules = [
            "at the planned number" if value.get("at_planned_number") else "",
            f"at a budget of {value['budget']:g}" if value.get("budget") is not None else "",
            f"on {value['last_day']}" if value.get("last_day") else "",
        ]
        return "; ".join(filter(None, rules)) or "by the researchers"
    if part == "smallest_difference" and value is None:
        return "a tenth of the scale"
    if part == "level":
        return "the default of each analysis" if value is None else percent(value)
    if part == "wanted":
        return f"{value:,}" if value else "no limit"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)
