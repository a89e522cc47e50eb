"""Checklist of a study before it opens, and its builder's step.

Refusals come from the one validator of studies.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.http import HttpRequest

from webapp.conversations.models import Turn
from webapp.core.language import plural
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.materials import texts_missing
from webapp.dashboard.builder.pay import PROLIFIC_LEAST
from webapp.insights.study_plan import Cost, cost_of, n_wanted, reach_of
from webapp.jobs.selectors.metrics import languages_named
from webapp.studies.languages import lines_untranslated
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import money_text
from webapp.studies.safety import languages_unwatched
from webapp.studies.settings import SECTION_OF
from webapp.studies.validation import outcomes_possible, study_errors

_MOST = 2000
"""Maximum number of recent replies that are read, for all bots of the study together."""
_LEAST = 5
"""Minimum number of replies for a statement about a bot."""


@dataclass(frozen=True, slots=True)
class Slower:
    """Bot that cannot keep up with the pace.

    Attributes:
        first_s: median seconds until its own first words; words_per_s: median of its own speed after them, None if it
            returns whole replies.
    """

    bot_id: str
    first_s: float
    words_per_s: float | None


def slower_bots(study: Study) -> list[Slower]:
    """Return the study's bots that usually cannot keep up with its pace.

    Their latest replies are read in one query.
    """
    pacing = study.values.pacing
    if not pacing.paces_alike or not study.bots:
        return []
    rows = (
        Turn.objects.filter(conversation__bot__bot_id__in=study.bots, first_ms__isnull=False)
        .order_by("-pk")
        .values_list("conversation__bot__bot_id", "first_ms", "latency_ms", "text")[:_MOST]
    )
    first: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    for bot_id, first_ms, whole_ms, text in rows:
        assert first_ms is not None, "only such replies are asked for"
        first.setdefault(bot_id, []).append(first_ms / 1000)
        if whole_ms is not None and whole_ms > first_ms:
            words_after = max(0, len(text.split()) - 1)
            speeds.setdefault(bot_id, []).append(1000 * words_after / (whole_ms - first_ms))
    slower = []
    for bot_id in study.bots:
        if len(first.get(bot_id, ())) < _LEAST:
            continue
        first_s, speed = median(first[bot_id]), median(speeds.get(bot_id, [float("inf")]))
        is_behind = speed < pacing.words_per_s
        if first_s > pacing.first_words_s or is_behind:
            slower.append(Slower(bot_id, first_s, speed if is_behind else None))
    return slower


_STEP_OF_SECTION = {"texts": "texts", "recruitment": "pay", "quotas": "pay", "closing": "pay", "planning": "pay"}
_STEP_OF_FIELD = {"questions": "questions", "rubric": "questions"}


@dataclass(frozen=True, slots=True)
class ChecklistFinding:
    """Line of the checklist.

    Attributes:
        tone: "stop" keeps the study closed; "warn" is a problem; "info" is worth knowing; "good" is fine.
        lead: bold first words; rest: the words after them; hint: a second line.
        step: builder step that fixes it; empty if none does.
        field: field to fix in that step.
    """

    tone: str
    lead: str
    rest: str = ""
    hint: str = ""
    step: str = ""
    field: str = ""


def findings_of(plan: Plan) -> list[ChecklistFinding]:
    """Return the whole checklist, missing items first.

    It is computed once per page.
    """
    if plan.findings is None:
        plan.findings = _findings(plan)
    return plan.findings


def _findings(plan: Plan) -> list[ChecklistFinding]:
    findings = [
        *_refusals(plan),
        *_check_bots(plan),
        *_texts(plan),
        *_questions(plan),
        *_walked(plan),
        *_ends(plan),
        *_chat(plan),
        *_pay(plan),
        *_check_target(plan),
    ]
    order = ["stop", "warn", "good", "info"]
    return sorted(findings, key=lambda finding: order.index(finding.tone))


def stops(findings: Sequence[ChecklistFinding]) -> list[ChecklistFinding]:
    """Return the findings that prevent the study from opening."""
    return [finding for finding in findings if finding.tone == "stop"]


def _refusals(plan: Plan) -> list[ChecklistFinding]:
    """Return the validator's refusals if the study were opened now."""
    study = copy.copy(plan.study)
    study.state = Study.State.COLLECTING
    errors = study_errors(before=plan.study, study=study, values=plan.study.values, rubric=plan.study.rubric)
    missing_ends = [field for field in errors if _is_end_missing(field, plan)]
    findings = [
        ChecklistFinding("stop", sentence, step=_step_of(field, plan), field=field)
        for field, sentence in errors.items()
        if len(missing_ends) < 2 or field not in missing_ends
    ]
    if len(missing_ends) > 1:
        lead = f"{len(missing_ends)} outcomes have neither a code nor a return link:"
        if plan.study.values.recruitment.platform == "prolific":
            lead = f"{len(missing_ends)} outcomes have no Prolific code:"
        titles = [str(Outcome(field.partition("_")[2]).label) for field in missing_ends]
        rest = "; ".join(titles) + "."
        findings.append(ChecklistFinding("stop", lead, rest, step="pay", field=missing_ends[0]))
    return findings


def _is_end_missing(field: str, plan: Plan) -> bool:
    """Return True if an error is about an outcome without code and link."""
    is_end = field.startswith(("code_", "link_"))
    return is_end and not getattr(plan.study.values.recruitment, field)


def _step_of(field: str, plan: Plan) -> str:
    if field in _STEP_OF_FIELD:
        return _STEP_OF_FIELD[field]
    section = SECTION_OF.get(field, "")
    return _STEP_OF_SECTION.get(section, "bots")


def _check_bots(plan: Plan) -> list[ChecklistFinding]:
    study = plan.study
    if plan.gives != "bots" or not study.bots:
        return []
    n, away = len(study.bots), plan.not_offered
    if len(away) == n:
        return [
            ChecklistFinding("stop", "None of the study’s bots can reply.", " ".join(_list_reasons(plan)), step="bots")
        ]
    if plan.untried and study.state != Study.State.COLLECTING:
        lead = plural(len(plan.untried), "%(n)d bot has not replied yet:", "%(n)d bots have not replied yet:")
        hint = "Send each bot a message on its page under Bots, or rehearse the study: one reply is enough."
        names = ", ".join(plan.untried) + "."
        return [ChecklistFinding("stop", lead % {"n": len(plan.untried)}, names, hint, step="bots")]
    if away:
        lead = plural(n, "%(away)d of %(n)d bots cannot reply.", "%(away)d of %(n)d bots cannot reply.")
        rest = "Participants get the others."
        return [
            ChecklistFinding(
                "warn", lead % {"away": len(away), "n": n}, rest, " ".join(_list_reasons(plan)), step="bots"
            )
        ]
    lead = plural(n, "%(n)d bot", "%(n)d bots") % {"n": n}
    loaded = [bot_id for bot_id in study.bots if plan.states[bot_id].is_loaded]
    hint = plural(len(loaded), "%(n)d is loaded now.", "%(n)d are loaded now.")
    hint %= {"n": len(loaded)}
    if plan.not_loaded and study.state != Study.State.COLLECTING:
        hint += " " + "They all load when a participant goes through the link."
    return [ChecklistFinding("good", lead, "can load.", hint)]


def _list_reasons(plan: Plan) -> list[str]:
    reasons = []
    for bot_id in plan.not_offered:
        state = plan.states.get(bot_id)
        reason = state.reason if state and state.reason else "not registered here"
        reasons.append(f"{bot_id}: {reason}.")
    return reasons


def _texts(plan: Plan) -> list[ChecklistFinding]:
    missing = texts_missing(plan)
    if missing:
        lead = "A text is empty:" if len(missing) == 1 else "Texts are empty:"
        return [ChecklistFinding("stop", lead, ", ".join(missing) + ".", step="texts")]
    findings = [ChecklistFinding("good", "All texts are complete:", "title, consent, instructions, thanks.")]
    texts = plan.study.values.texts
    if not texts.organisation or not texts.contact:
        rest = "Participants see neither an organisation nor a contact address."
        if texts.organisation:
            rest = "Participants see no contact address."
        elif texts.contact:
            rest = "Participants do not see who runs the study."
        level = "stop" if not texts.contact and plan.study.state == Study.State.DRAFT else "warn"
        lead, field = ("Organisation missing.", "organisation") if texts.contact else ("Contact missing.", "contact")
        findings.append(ChecklistFinding(level, lead, rest, step="texts", field=field))
    if plan.study.values.safety.watches_messages and (unwatched := languages_unwatched(plan.study.values)):
        rest = f"No phrases are listed for {languages_named(unwatched)}; messages in it are not watched."
        findings.append(ChecklistFinding("warn", "Safety net.", rest, step="bots", field="distress_phrases"))
    if len(texts.offered) > 1:
        lead = f"Participants can choose among {languages_named(texts.offered)}."
        lacking = lines_untranslated(plan.study.version)
        rest = "Pages and all texts follow the choice; items and attention checks among them stay as written."
        if lacking:
            n = ", ".join(f"{len(lines)} into {languages_named([code])}" for code, lines in lacking.items())
            rest = f"Your own lines without a translation are shown as written: {n}."
        level = "warn" if lacking else "info"
        findings.append(ChecklistFinding(level, lead, rest, step="texts", field="languages"))
    return findings


def _questions(plan: Plan) -> list[ChecklistFinding]:
    n = len(plan.dimensions)
    if not n:
        rest = "Participants would have nothing to rate."
        return [ChecklistFinding("stop", "There is no question.", rest, step="questions")]
    if protocols.get(plan.study.protocol).scale == (0, 1):
        lead = plural(n, "%(n)d option", "%(n)d options") % {"n": n}
        return [ChecklistFinding("good", lead, "to tick after the task.")]
    bare = [dimension for dimension in plan.dimensions if not (dimension.low_label and dimension.high_label)]
    lead = plural(n, "%(n)d scale", "%(n)d scales") % {"n": n}
    if bare:
        lacking = plural(len(bare), "has no labels at its ends", "have no labels at their ends")
        rest = f"asked after the task; {len(bare)} {lacking}."
        return [ChecklistFinding("warn", lead, rest, step="questions")]
    return [ChecklistFinding("good", lead, "asked after the task, each with labels at both ends.")]


def _walked(plan: Plan) -> list[ChecklistFinding]:
    last = last_walk(plan.study)
    if last is None:
        is_open = plan.study.state == Study.State.COLLECTING
        return [
            ChecklistFinding(
                "warn" if is_open else "stop",
                "You have not tested the study through its link yet.",
                hint="Go through it once yourself, on a phone if you can, or rehearse. Neither counts in any result.",
                step="walk",
            )
        ]
    when = "The study was tested from start to end."
    saved_at, version = plan.study.version.saved_at, plan.study.version
    if last.version_id != version.pk or (saved_at and last.ended_at and last.ended_at < saved_at):
        return [ChecklistFinding("warn", when, "The study has been changed since.", step="walk")]
    return [ChecklistFinding("good", when, "Nothing has changed since.")]


def last_walk(study: Study) -> Task | None:
    """Return the newest task completed in a rehearsal.

    A researcher may have completed it with a rehearsal link.
    """
    done = Task.objects.filter(participant__study=study, participant__is_synthetic=True, state=Task.State.COMPLETED)
    return done.select_related("version").order_by("-ended_at", "-pk").first()


def _ends(plan: Plan) -> list[ChecklistFinding]:
    recruitment = plan.study.values.recruitment
    outcomes = outcomes_possible(plan.study)
    n = len([outcome for outcome in outcomes if recruitment.code(outcome) or recruitment.link(outcome)])
    if recruitment.platform in ("prolific", "panel"):
        if n < len(outcomes):  # the validator names it
            return []
        lead = f"All {n} outcomes have a code or return link,"
        return [ChecklistFinding("good", lead, "and no two share a code.")]
    if recruitment.platform == "mturk":
        return [ChecklistFinding("good", "Participants from Mechanical Turk", "return through its form.")]
    if n:
        return []
    rest = "At the end, participants see a code made by Confab, which no platform knows."
    return [ChecklistFinding("info", "No platform is set.", rest, step="pay", field="platform")]


def _chat(plan: Plan) -> list[ChecklistFinding]:
    if "chat" not in (plan.protocol.settings if plan.protocol else ()):
        return []
    chat = plan.study.values.chat
    low = f"{chat.min_exchanges} {plural(chat.min_exchanges, 'message', 'messages')}"
    limits = [f"at {name} {n} minutes" for name, n in (("least", chat.least_minutes), ("most", chat.most_minutes)) if n]
    time = f"Its time is {' and '.join(limits)} from the first message." if limits else ""
    return [ChecklistFinding("good", f"Shortest chat {low}, longest {chat.max_exchanges}.", time), *_slower(plan)]


def _slower(plan: Plan) -> list[ChecklistFinding]:
    """Return a finding for each bot that cannot keep up with the pace."""
    findings = []
    for bot in slower_bots(plan.study):
        rest = "Unpaced, it starts after %(own).1f s, so participants could recognise it."
        placeholders = {"own": bot.first_s, "speed": bot.words_per_s}
        if bot.words_per_s is not None:
            rest = "Unpaced, it starts after %(own).1f s at %(speed).1f words/s, so participants could recognise it."
        lead = f"{bot.bot_id} is slower than the pace."
        hint = "Raise the seconds until the first words, or lower the words per second."
        findings.append(ChecklistFinding("warn", lead, rest % placeholders, hint, "bots", "first_words_s"))
    return findings


def _check_target(plan: Plan) -> list[ChecklistFinding]:
    n, findings = n_wanted(plan.study), []
    if not n:
        rest = "It stays open until you close it."
        findings = [ChecklistFinding("info", "No target set.", rest, _half(plan), "pay", "max_per_bot")]
    else:
        lead = plural(n, "%(n)d task wanted", "%(n)d tasks wanted") % {"n": n}
        reach = reach_of(plan.study, plan.width)
        if reach is not None and reach.difference is not None:
            template = "which detect a difference of %(points).1f points in 8 of 10 studies."
            rest = template % {"points": reach.difference}
            findings = [ChecklistFinding("info", lead, rest, _half(plan), "pay", "max_per_bot")]
        else:
            findings = [ChecklistFinding("good", f"{lead}.")]
    return findings


def _half(plan: Plan) -> str:
    """Compose a sentence on the ratings per bot that a study needs.

    They detect the smallest difference of interest.
    """
    reach = reach_of(plan.study, plan.width)
    if reach is None or reach.for_smallest is None:
        return ""
    smallest = f"The smallest difference of interest, {reach.smallest:.3g} points,"
    half = f"{smallest} needs about {reach.for_smallest} ratings per bot"
    if reach.with_prediction is not None:
        template = " (%(n)d for a new bot that the hybrid metric predicts)"
        half += template % {"n": reach.with_prediction}
    sd = {"sd": f"{reach.spread.sd:g}", "study": reach.spread.study}
    if reach.spread.study:
        template = ", based on the two bots with the most widely spread ratings in {study} (standard deviation {sd})."
        return half + template.format(**sd)
    return half + ", if one bot’s ratings have a standard deviation of {sd} points.".format(**sd)


def _pay(plan: Plan) -> list[ChecklistFinding]:
    cost = cost_of(plan.study)
    if cost.an_hour is None:
        return []
    return _hourly(plan, cost)


def _hourly(plan: Plan, cost: Cost) -> list[ChecklistFinding]:
    assert cost.an_hour is not None
    an_hour = money_text(cost.an_hour, cost.currency)
    least = PROLIFIC_LEAST.get(cost.currency, 0.0)
    if plan.study.values.recruitment.platform == "prolific" and cost.an_hour < least:
        rest = f"Prolific requires at least {money_text(least, cost.currency)}."
        lead = f"{an_hour} per hour is low."
        return [ChecklistFinding("warn", lead, rest, step="pay", field="pay_each")]
    lead = f"{an_hour} per hour"
    if cost.in_all is None:
        return [ChecklistFinding("good", f"{lead}.")]
    rest = f"and {money_text(cost.in_all, cost.currency)} in total."
    return [ChecklistFinding("good", lead, rest)]


class CheckStep(BuildStep):
    name = "check"
    title = "Check and open"
    template = "check.html"
    heading = "Is everything complete?"

    def state(self, plan: Plan) -> StepState:
        if plan.study.state == Study.State.COLLECTING:
            return StepState("open", "good")
        n = len(stops(findings_of(plan)))
        if n:
            return StepState(plural(n, "%(n)d thing left", "%(n)d things left") % {"n": n}, "warn")
        return StepState("ready", "good")

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the checklist, and the findings that keep the study closed."""
        findings = findings_of(plan)
        missing = stops(findings)
        n = len(missing)
        summary = plural(n, "%(n)d thing is left before you can open", "%(n)d things are left before you can open")
        return {
            "findings": findings,
            "n_left": n,
            "left": summary % {"n": n},
            "is_open": plan.study.state == Study.State.COLLECTING,
        }
