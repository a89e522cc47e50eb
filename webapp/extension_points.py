"""Extension points of `webapp`: the things that one new file adds, found by its decorator.

`docs/extend.md` shows them with examples. A later app may have a folder of the same name for its own: the kinds of
jobs of `results` are in `webapp/results/kinds`, and the exported table of pay is in `webapp/pay/exporters`. The API's
routes have no decorator of ours: each file of `webapp/api/routes` has a router, and `webapp/api/urls.py` lists them.
"""

from __future__ import annotations

from chatbots.extension_points import ExtensionPoint
from webapp.jobs.kinds.base import JobKind, kinds, register_kind
from webapp.participant.question_forms.base import Sheet, register_sheet, sheets
from webapp.participant.steps.base import ParticipantStep, register_step, steps
from webapp.pay.flags import base as pay_flags
from webapp.ratings.flags import base as flags
from webapp.studies.assignment.rules.base import AssignmentRule, register_rule, rules
from webapp.studies.protocols.base import StudyProtocol, protocols, register_protocol
from webapp.studies.reply_filters.base import ReplyFilter, register_filter, reply_filters
from webapp.transfer.exporters.base import Exporter, exporters, register_exporter

EXTENSION_POINTS: tuple[ExtensionPoint, ...] = (
    ExtensionPoint("a study protocol", "webapp/studies/protocols", register_protocol, StudyProtocol, protocols),
    ExtensionPoint("an assignment rule", "webapp/studies/assignment/rules", register_rule, AssignmentRule, rules),
    ExtensionPoint("a filter of replies", "webapp/studies/reply_filters", register_filter, ReplyFilter, reply_filters),
    ExtensionPoint("a step of participants", "webapp/participant/steps", register_step, ParticipantStep, steps),
    ExtensionPoint(
        "a form of questions for the step `judge`", "webapp/participant/question_forms", register_sheet, Sheet, sheets
    ),
    ExtensionPoint(
        "a flag of a participant's work", "webapp/ratings/flags", flags.register_flag, flags.FlagKind, flags.flag_kinds
    ),
    ExtensionPoint(
        "a flag that matters for pay alone",
        "webapp/pay/flags",
        pay_flags.register_flag,
        pay_flags.PayFlagKind,
        pay_flags.flag_kinds,
    ),
    ExtensionPoint("a kind of job", "webapp/jobs/kinds", register_kind, JobKind, kinds),
    ExtensionPoint("an exported table", "webapp/transfer/exporters", register_exporter, Exporter, exporters),
)
