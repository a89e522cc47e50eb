"""Table `pay`: one row per visit, with the decisions about its pay.

Visitors who declined consent have rows too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from django.contrib.auth import get_user_model

from webapp.core.rights import Right
from webapp.pay.flags.base import flags_of
from webapp.pay.models import Decision
from webapp.pay.submission_search import codes_shown
from webapp.pay.submissions import submissions_of
from webapp.studies.models import Participant, Study
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, register_exporter

_CHUNK = 500
_COLUMNS = (
    ExportColumn("participant", "text", "Random id of the participant; the rater in other tables."),
    ExportColumn("study", "text", "Key of the study."),
    ExportColumn(
        "outcome",
        "text",
        "How the visit ended: rated, bot_failed, screened_out, failed_check, no_consent, late, withdrawn, left "
        "(without an ending) or inside (still in progress).",
    ),
    ExportColumn("our_fault", "boolean", "The visit ended early through no fault of the participant."),
    ExportColumn("code", "text", "Completion code shown for this outcome; empty if none was shown."),
    ExportColumn("began_at", "time", "When the visit's first task began."),
    ExportColumn("ended_at", "time", "When its last task ended; empty while the visit is in progress."),
    ExportColumn("seconds", "number", "Time between the two, in seconds."),
    ExportColumn("flags", "text", "Reasons to review the visit, separated by semicolons."),
    ExportColumn("decision", "text", "approve or reject; empty if there is no decision yet."),
    ExportColumn("decision_state", "text", "State of the decision: decided (not sent), sending, sent or failed."),
    ExportColumn("reason", "text", "Reason for a rejection, as the participant reads it."),
    ExportColumn("bonus", "number", "Sum of all bonuses decided, in the study's currency."),
    ExportColumn("decided_by", "text", "User who made the decision."),
    ExportColumn("decided_at", "time", "When the decision was made."),
    ExportColumn("error", "text", "Why the decision could not be sent; empty if it could."),
    ExportColumn(
        "fault", "text", "Cause of the failure: bot (a chatbot did not reply) or server (a Confab page failed)."
    ),
    ExportColumn(
        "bonus_state",
        "text",
        "State of each bonus: decided (not sent), sending, sent, failed or unsure (may have been sent), separated "
        "by semicolons.",
    ),
    ExportColumn(
        "to_pay",
        "number",
        "Amount still owed for the work or the participant's time, without bonuses. Empty if the study states no pay.",
    ),
    ExportColumn("to_pay_with_bonuses", "number", "The same amount plus all bonuses not known to be sent."),
    ExportColumn(
        "owed", "number", "Total owed for the visit, paid or not, without bonuses; 0 if returned or rejected."
    ),
    ExportColumn("by_hand", "boolean", "The visit must be paid by hand: the platform has no matching payment."),
)
_PRIVATE = (
    ExportColumn("platform", "text", "Recruitment platform of the participant."),
    ExportColumn("external_id", "text", "The participant's id on that platform. Private."),
    ExportColumn("submission", "text", "The platform's id of the visit. Private."),
)


@register_exporter
class PayTable:
    name = "pay"
    title = "Pay"
    description = "One row per started visit, with outcome, code, flags and decision."
    right = Right.PAY

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return [*_COLUMNS, *(_PRIVATE if options.include_private else ())]

    def count(self, study: Study, options: ExportOptions) -> int:
        return Participant.objects.filter(study=study, is_synthetic=False).count()

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        visits = submissions_of(study)
        flags = flags_of(visits, exact=True)
        oldest_first = visits.all[::-1]
        for start in range(0, len(oldest_first), _CHUNK):
            some = oldest_first[start : start + _CHUNK]
            codes = codes_shown(some)
            stored = Decision.objects.in_bulk([visit.verdict.pk for visit in some if visit.verdict is not None])
            names = _names(stored)
            for visit in some:
                verdict = stored.get(visit.verdict.pk) if visit.verdict is not None else None
                duration, owed = visit.duration, visit.to_pay
                row = [
                    str(visit.key.participant),
                    study.key,
                    visit.outcome,
                    visit.is_ours,
                    codes.get(visit.key, ""),
                    visit.began_at,
                    visit.ended_at,
                    duration.total_seconds() if duration is not None else None,
                    "; ".join(str(flag.title) for flag in flags.get(visit.key, [])),
                    verdict.action if verdict else "",
                    verdict.state if verdict else "",
                    verdict.reason if verdict else "",
                    float(sum(bonus.amount for bonus in visit.bonuses)) if visit.bonuses else None,
                    names.get(verdict.decided_by_id, "") if verdict else "",
                    verdict.created_at if verdict else None,
                    " ".join(decision.error for decision in visit.decisions if decision.error),
                    visit.fault,
                    "; ".join(bonus.state for bonus in visit.bonuses),
                    *map(_number, (owed.work, owed.with_bonuses, visit.owed)),
                    visit.is_to_be_paid and visit.is_paid_by_hand,
                ]
                if options.include_private:
                    row += [visit.platform, visit.external_id, visit.key.submission]
                yield row


def _number(amount: Decimal | None) -> float | None:
    return float(amount) if amount is not None else None


def _names(decisions: dict[int, Decision]) -> dict[int | None, str]:
    ids = {decision.decided_by_id for decision in decisions.values() if decision.decided_by_id is not None}
    model = get_user_model()
    return dict(model.objects.filter(pk__in=ids).values_list("pk", model.USERNAME_FIELD))
