"""Plan of a study next to what was done, and deviations from it."""

from __future__ import annotations

from evaluation.data.result_tables import Cell, NamedTable, declared_table
from evaluation.number_format import figure, percent, pluralise
from webapp.insights.data_quality import left_out_sentence
from webapp.insights.narrative.phrases import Section, listed
from webapp.results.study_data import StudyFrame
from webapp.studies.models import Study, StudyPlan
from webapp.studies.plans import PLAN_TITLES, PlanChange, plan_deviations, plan_digest, plan_document, plan_part


def plan_section(frame: StudyFrame) -> Section:
    """Return the plan of the opening next to the study as it was done."""
    section = Section("plan", "Planned and done")
    plans = list(frame.study.plans.all())
    if not plans:
        section.missing.append(
            "No plan was stored: the study was never opened here, or it was opened by an earlier version of Confab."
        )
        return section
    first, changes = plans[0], plan_deviations(plans)
    day = f"{first.created_at:%d %B %Y, %H:%M} UTC".lstrip("0")
    section.lead.append(_deviations_sentence(changes))
    section.lead.append(f"The plan was stored on {day}, {_before(first)}; SHA-256 of plan.json: {first.digest}.")
    if damaged := [str(plan.number) for plan in plans if plan_digest(plan.document) != plan.digest]:
        section.caution = f"The stored plan {listed(damaged)} does not have its digest: it was changed in the database."
    section.conclusion = section.lead[0]
    section.tables.append(_planned(frame, first))
    if changes:
        section.tables.append(_deviations(changes))
    section.methods = [
        "The plan is stored when the study opens, before anyone can take part, and its rows are never changed. A later "
        "change of the settings stores the new plan next to it."
    ]
    return section


def _before(plan: StudyPlan) -> str:
    if not plan.n_participants:
        return "before the first participant"
    return f"when {pluralise(plan.n_participants, 'participant')} had already started"


def _deviations_sentence(changes: list[PlanChange]) -> str:
    if not changes:
        return "The plan has not changed since the study opened."
    parts = listed(list(dict.fromkeys(PLAN_TITLES[change.part].split(":")[0].lower() for change in changes)))
    return f"The plan was changed after the study had opened: {parts}."


def _planned(frame: StudyFrame, plan: StudyPlan) -> NamedTable:
    done = _done(frame)
    return declared_table(
        "plan",
        "Plan of the opening and what was done",
        [(part, title) for part, title in PLAN_TITLES.items() if part in plan.document],
        ("Part", lambda row: Cell(row[1])),
        ("Planned", lambda row: Cell(plan_part(plan.document, row[0]))),
        ("Done", lambda row: Cell(done.get(row[0], ""))),
    )


def _done(frame: StudyFrame) -> dict[str, str]:
    """Return the actual procedure by part of the plan."""
    study, facts = frame.study, frame.facts
    now = plan_document(study)
    dimension = frame.headline
    smallest = study.values.quotas.smallest_difference
    margin = f"{smallest:g}" if smallest is not None else f"{figure((dimension.high - dimension.low) / 10)} (a tenth)"
    return {
        **{part: plan_part(now, part) for part in ("protocol", "rule", "questions", "conditions", "hypotheses")},
        "bots": f"{listed(frame.rated_bots)} rated" if frame.rated_bots else "none rated",
        "smallest_difference": margin,
        "level": "the default of each analysis" if now["level"] is None else percent(now["level"]),
        "wanted": f"{pluralise(facts.n_ratings, 'rating')} of {pluralise(facts.n_conversations, 'conversation')}",
        "closing": _closing(study),
        "exclusions": left_out_sentence(study, frame.excluded_flags) or "no participants left out of this report",
        **{part: plan_part(now, part) for part in ("helper", "checks", "population", "smallest_group")},
    }


def _closing(study: Study) -> str:
    if study.state != Study.State.ENDED:
        return f"not closed: {study.get_state_display().lower()}"
    by = study.get_closed_by_display() if study.closed_by else "by the researchers"
    return f"closed: {by}"


def _deviations(changes: list[PlanChange]) -> NamedTable:
    return declared_table(
        "deviations",
        "Changes after the study had opened",
        changes,
        ("Part", lambda change: Cell(PLAN_TITLES[change.part])),
        ("Before", lambda change: Cell(change.before)),
        ("After", lambda change: Cell(change.after)),
        ("Changed", lambda change: Cell(f"{change.plan.created_at:%Y-%m-%d %H:%M} UTC")),
        ("Participants by then", lambda change: Cell(f"{change.plan.n_participants:,}")),
    )
