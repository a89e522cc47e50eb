"""Checklist of a study before it opens, in words; refusals come from the one validator."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from webapp.core.speaking import plural
from webapp.dashboard.build.base import Plan
from webapp.dashboard.build.cost import PROLIFIC_LEAST, Cost, cost_of, n_wanted
from webapp.dashboard.build.power import reach_of
from webapp.dashboard.build.slower import slower_bots
from webapp.dashboard.build.texts import texts_missing
from webapp.studies.checks import outcomes_possible, study_errors
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.money import amount
from webapp.studies.protocols.base import protocols
from webapp.studies.values import SECTION_OF

_STEP_OF_SECTION = {"texts": "texts", "recruitment": "pay", "quotas": "pay"}
_STEP_OF_FIELD = {"questions": "questions", "rubric": "questions"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the checklist.

    Attributes:
        tone: "stop" keeps the study closed; "warn" is unwise; "info" is worth knowing; "good" is well.
        lead: the first words, in bold; rest: what follows; hint: a second line.
        step: of the builder where it is mended; empty if nowhere there.
        field: that is to be mended, in that step.
    """

    tone: str
    lead: str
    rest: str = ""
    hint: str = ""
    step: str = ""
    field: str = ""


def findings_of(plan: Plan) -> list[Finding]:
    """Return the whole list, what is missing first; it is made once for a page."""
    if plan.findings is None:
        plan.findings = _findings(plan)
    return plan.findings


def _findings(plan: Plan) -> list[Finding]:
    found = [
        *_refusals(plan),
        *_given(plan),
        *_texts(plan),
        *_questions(plan),
        *_walked(plan),
        *_ends(plan),
        *_chat(plan),
        *_pay(plan),
        *_wanted(plan),
    ]
    order = ["stop", "warn", "good", "info"]
    return sorted(found, key=lambda one: order.index(one.tone))


def stops(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings that prevent the study from opening."""
    return [one for one in found if one.tone == "stop"]


def _refusals(plan: Plan) -> list[Finding]:
    """Return the validator's refusals if the study were opened now."""
    study = copy.copy(plan.study)
    study.state = Study.State.COLLECTING
    errors = study_errors(
        before=plan.study, study=study, values=plan.study.values, rubric=plan.study.rubric
    )
    without = [field for field in errors if _is_end_missing(field, plan)]
    found = [
        Finding("stop", sentence, step=_step_of(field, plan), field=field)
        for field, sentence in errors.items()
        if len(without) < 2 or field not in without
    ]
    if len(without) > 1:
        lead = f"{len(without)} outcomes have neither a code nor a way back:"
        if plan.study.values.recruitment.platform == "prolific":
            lead = f"{len(without)} outcomes have no code of Prolific’s:"
        titles = [str(Outcome(field.partition("_")[2]).label) for field in without]
        rest = "; ".join(titles) + "."
        found.append(Finding("stop", lead, rest, step="pay", field=without[0]))
    return found


def _is_end_missing(field: str, plan: Plan) -> bool:
    """Return True if an error is about an outcome with neither code nor link."""
    is_end = field.startswith(("code_", "link_"))
    return is_end and not getattr(plan.study.values.recruitment, field)


def _step_of(field: str, plan: Plan) -> str:
    if field in _STEP_OF_FIELD:
        return _STEP_OF_FIELD[field]
    section = SECTION_OF.get(field, "")
    return _STEP_OF_SECTION.get(section, "bots")


def _given(plan: Plan) -> list[Finding]:
    study = plan.study
    if plan.gives != "bots" or not study.bots:
        return []
    n, away = len(study.bots), plan.not_offered
    if len(away) == n:
        return [Finding("stop", "None of its bots can answer.", " ".join(_why(plan)), step="bots")]
    if away:
        lead = plural(
            n, "%(away)d of %(n)d bots cannot answer.", "%(away)d of %(n)d bots cannot answer."
        )
        rest = "People are given the others."
        return [
            Finding(
                "warn",
                lead % {"away": len(away), "n": n},
                rest,
                " ".join(_why(plan)),
                step="bots",
            )
        ]
    lead = plural(n, "%(n)d bot", "%(n)d bots") % {"n": n}
    loaded = [bot_id for bot_id in study.bots if plan.states[bot_id].words == "Loaded"]
    hint = plural(len(loaded), "%(n)d is loaded now.", "%(n)d are loaded now.")
    hint %= {"n": len(loaded)}
    if plan.not_loaded and study.state != Study.State.COLLECTING:
        hint += " " + "All of them load while somebody goes through the link."
    return [Finding("good", lead, "can load.", hint)]


def _why(plan: Plan) -> list[str]:
    told = []
    for bot_id in plan.not_offered:
        state = plan.states.get(bot_id)
        why = state.reason if state and state.reason else "is not registered here"
        told.append(f"{bot_id}: {why}.")
    return told


def _texts(plan: Plan) -> list[Finding]:
    missing = texts_missing(plan)
    if missing:
        lead = "A text is empty:" if len(missing) == 1 else "Texts are empty:"
        return [Finding("stop", lead, ", ".join(missing) + ".", step="texts")]
    found = [Finding("good", "Every text is there:", "title, consent, instructions, thanks.")]
    texts = plan.study.values.texts
    if not texts.organisation or not texts.contact:
        rest = "People read neither who runs the study nor whom to write to."
        if texts.organisation:
            rest = "People are not told whom to write to."
        elif texts.contact:
            rest = "People are not told who runs the study."
        found.append(Finding("warn", "Who asks?", rest, step="texts", field="organisation"))
    return found


def _questions(plan: Plan) -> list[Finding]:
    n = len(plan.dimensions)
    if not n:
        rest = "People would have nothing to rate."
        return [Finding("stop", "No question is asked.", rest, step="questions")]
    if protocols.get(plan.study.protocol).scale == (0, 1):
        lead = plural(n, "%(n)d thing", "%(n)d things") % {"n": n}
        return [Finding("good", lead, "to tick after the task.")]
    bare = [one for one in plan.dimensions if not (one.low_label and one.high_label)]
    lead = plural(n, "%(n)d scale", "%(n)d scales") % {"n": n}
    if bare:
        rest = plural(
            len(bare),
            "asked after the task; %(n)d has no words at its ends.",
            "asked after the task; %(n)d have no words at their ends.",
        )
        return [Finding("warn", lead, rest % {"n": len(bare)}, step="questions")]
    return [Finding("good", lead, "asked after the task, each with words at both ends.")]


def _walked(plan: Plan) -> list[Finding]:
    last = last_walk(plan.study)
    if last is None:
        is_open = plan.study.state == Study.State.COLLECTING
        return [
            Finding(
                "warn" if is_open else "stop",
                "Nobody has gone through the link as a participant yet.",
                hint="Take the whole way once, on a phone if you can, or rehearse. It counts nowhere.",
                step="walk",
            )
        ]
    when = "The whole way was gone through."
    saved_at, version = plan.study.version.saved_at, plan.study.version
    if last.version_id != version.pk or (saved_at and last.ended_at and last.ended_at < saved_at):
        return [Finding("warn", when, "The study has been changed since.", step="walk")]
    return [Finding("good", when, "As it stands now.")]


def last_walk(study: Study) -> Task | None:
    """Return the newest task that a rehearsal, or a researcher by the link of one, has gone through to the end."""
    done = Task.objects.filter(
        participant__study=study, participant__is_synthetic=True, state=Task.State.COMPLETED
    )
    return done.select_related("version").order_by("-ended_at", "-pk").first()


def _ends(plan: Plan) -> list[Finding]:
    recruitment = plan.study.values.recruitment
    outcomes = outcomes_possible(plan.study)
    n = len([one for one in outcomes if recruitment.code(one) or recruitment.link(one)])
    if recruitment.platform in ("prolific", "panel"):
        if n < len(outcomes):  # the validator says which
            return []
        lead = plural(
            n,
            "The one outcome has its code or way back,",
            "All %(n)d outcomes have their code or way back,",
        )
        return [Finding("good", lead % {"n": n}, "and no code stands for two of them.")]
    if recruitment.platform == "mturk":
        return [Finding("good", "People from Mechanical Turk", "go back by its own form.")]
    if n:
        return []
    rest = "People are shown a code of Confab’s at the end, which no platform knows."
    return [Finding("info", "No platform is set.", rest, step="pay", field="platform")]


def _chat(plan: Plan) -> list[Finding]:
    if "chat" not in (plan.protocol.settings if plan.protocol else ()):
        return []
    chat = plan.study.values.chat
    lead = plural(
        chat.min_exchanges,
        "Shortest chat %(low)d message, longest %(high)d.",
        "Shortest chat %(low)d messages, longest %(high)d.",
    )
    return [
        Finding("good", lead % {"low": chat.min_exchanges, "high": chat.max_exchanges}),
        *_slower(plan),
    ]


def _slower(plan: Plan) -> list[Finding]:
    """Return a finding for each bot that cannot keep to the pace at which all are shown."""
    found = []
    for one in slower_bots(plan.study):
        rest = "Its first words come after %(own).1f s by itself; people would know it by that."
        told = {"own": one.first_s, "speed": one.words_per_s}
        if one.words_per_s is not None:
            rest = (
                "By itself its first words come after %(own).1f s, and then %(speed).1f words a second; people "
                "would know it by that."
            )
        lead = f"{one.bot_id} is slower than the pace."
        hint = "Raise the seconds until the first words, or lower the words a second."
        found.append(Finding("warn", lead, rest % told, hint, "bots", "first_words_s"))
    return found


def _wanted(plan: Plan) -> list[Finding]:
    n, found = n_wanted(plan.study), []
    if not n:
        rest = "It stays open until you close it."
        found = [Finding("info", "No number is aimed at.", rest, _half(plan), "pay", "max_per_bot")]
    else:
        lead = plural(n, "%(n)d is wanted in all", "%(n)d are wanted in all") % {"n": n}
        reach = reach_of(plan.study, plan.width)
        if reach is not None and reach.difference is not None:
            told = "and tell %(points).1f points apart in 8 studies out of 10."
            rest = told % {"points": reach.difference}
            found = [Finding("info", lead, rest, _half(plan), "pay", "max_per_bot")]
        else:
            found = [Finding("good", f"{lead}.")]
    return found


def _half(plan: Plan) -> str:
    """Compose a sentence on the ratings per bot that detect half a point."""
    reach = reach_of(plan.study, plan.width)
    if reach is None or reach.for_half is None:
        return ""
    half = f"Half a point needs about {reach.for_half} ratings a bot"
    if reach.with_prediction is not None:
        told = " (of a further bot that the hybrid metric predicts %(n)d)"
        half += told % {"n": reach.with_prediction}
    sd = {"sd": f"{reach.spread.sd:g}", "study": reach.spread.study}
    if reach.spread.study:
        return half + ", by the two bots whose ratings spread most in {study} ({sd}).".format(**sd)
    return half + ", if ratings of one bot spread by {sd} points.".format(**sd)


def _pay(plan: Plan) -> list[Finding]:
    cost = cost_of(plan.study)
    if cost.an_hour is None:
        return []
    return _hourly(plan, cost)


def _hourly(plan: Plan, cost: Cost) -> list[Finding]:
    assert cost.an_hour is not None
    an_hour = amount(cost.an_hour, cost.currency)
    least = PROLIFIC_LEAST.get(cost.currency, 0.0)
    if plan.study.values.recruitment.platform == "prolific" and cost.an_hour < least:
        rest = f"Prolific asks for at least {amount(least, cost.currency)}."
        lead = f"{an_hour} an hour is little."
        return [Finding("warn", lead, rest, step="pay", field="pay_each")]
    lead = f"{an_hour} an hour"
    if cost.in_all is None:
        return [Finding("good", f"{lead}.")]
    rest = f"and {amount(cost.in_all, cost.currency)} in all."
    return [Finding("good", lead, rest)]
