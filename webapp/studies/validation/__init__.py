"""Validation of a study: error messages for the researcher, by field."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, cast

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.bots.selectors import bots_unknown, bots_unpriced
from webapp.studies.assignment.rules.base import rules
from webapp.studies.models import AGREED_BY_PEOPLE, Item, Outcome, Rubric, Study
from webapp.studies.protocols.base import asks_questions, protocols
from webapp.studies.rubrics import scales_of
from webapp.studies.selectors import (
    compares_dialogues,
    conversations_given,
    items_given,
    items_judged,
    marks_own_chats,
    marks_turns,
)
from webapp.studies.settings import Quotas, StudyValues
from webapp.studies.validation.sections import (
    SECTION_VALIDATORS,
    Errors,
    section_errors,
    validate_checks,
    validate_filters,
    validate_gold_items,
)

RESERVED_KEYS = ("new",)
"""Below `/dashboard/studies/` these are pages."""


def study_errors(
    *, before: Study | None, study: Study, values: StudyValues, rubric: Rubric | None, unread: Collection[str] = ()
) -> Errors:
    """Return the errors of a study: `{field: sentence}`, empty if there are none.

    Args:
        before: the study as it is stored; None for a new one.
        rubric: the questions after a task if the values have none; None: no questions then.
        unread: parts of the values that could not be read; a check that needs one of them is left out.
    """
    if unread:
        values = cast(StudyValues, _ReadPart(values, unread))
    checks: list[Callable[[], Errors]] = [
        *(partial(_validate_section, values, section) for section in SECTION_VALIDATORS),
        lambda: validate_cap(values.quotas, values.bots),
        lambda: validate_bot_quotas(values),
        lambda: validate_bots_in_a_row(study, values),
        lambda: validate_bot_choice(values),
        lambda: validate_filters(before, study, values),
        lambda: validate_pay(before, study, values),
        lambda: validate_opening(before, study, values),
        lambda: validate_questions(study, values),
        lambda: validate_checks(study, values),
        lambda: validate_attention(before, study, values, rubric),
        lambda: validate_gold_items(before, values, rubric),
        lambda: validate_scales(study, values, rubric),
        lambda: validate_reference(study, values, rubric),
        lambda: validate_selection(study, values, rubric),
        lambda: values.own_marking.errors(values.after) if marks_own_chats(study) else {},
        lambda: validate_names(before, study),
        lambda: validate_key(before, study),
        lambda: validate_fixed_values(before, study, values, rubric),
    ]
    errors: Errors = {}
    for check in checks:
        with suppress(_Unread):
            errors |= check()
    return errors


class _Unread(Exception):
    """A check asked for a part of a study that could not be read."""


class _ReadPart:
    """Values of a study of which some parts could not be read."""

    def __init__(self, values: StudyValues, unread: Collection[str]) -> None:
        self._values, self._unread = values, unread

    def __getattr__(self, name: str) -> Any:
        # A method may read any part.
        if name in self._unread or name not in StudyValues.model_fields:
            raise _Unread(name)
        return getattr(self._values, name)


def _validate_section(values: StudyValues, section: str) -> Errors:
    return section_errors(section, getattr(values, section))


def validate_cap(quotas: Quotas, bots: tuple[str, ...]) -> Errors:
    """Check that every bot has a price if there is a cap."""
    if quotas.max_cost is None or not (unpriced := bots_unpriced(list(bots))):
        return {}
    sentence = _(
        "The price of %(bots)s is unknown, so Confab cannot tell when a cap is reached. Add price_in and price_out "
        "to its entry in bots.yaml (0 where it is free), or take the cap out."
    )
    return {"max_cost": sentence % {"bots": ", ".join(unpriced)}}


def validate_bot_quotas(values: StudyValues) -> Errors:
    """Check that only bots of the study have a number of their own."""
    unknown = [bot_id for bot_id in values.assignment.bot_quotas if bot_id not in values.bots]
    if not unknown:
        return {}
    sentence = _("%(bots)s is none of the study's chatbots (%(known)s). Take it out, or add it there.")
    return {"bot_quotas": sentence % {"bots": ", ".join(unknown), "known": ", ".join(values.bots) or _("none")}}


def validate_bots_in_a_row(study: Study, values: StudyValues) -> Errors:
    """Check that there are as many bots as each person is to meet."""
    n = values.assignment.bots_in_a_row
    if n < 2 or study.protocol != "chat" or study.state == Study.State.DRAFT:
        return {}
    if n <= len(values.bots):
        return {}
    sentence = _("%(n)d chatbots one after another need as many; the study has %(has)d.")
    return {"bots_in_a_row": sentence % {"n": n, "has": len(values.bots)}}


def validate_bot_choice(values: StudyValues) -> Errors:
    """Check that participants can choose among the bots, each by its own name."""
    assignment, errors = values.assignment, Errors()
    if assignment.choice != "none" and assignment.bots_in_a_row > 1:
        errors["choice"] = _("Who meets several chatbots one after another cannot choose. Take one of the two back.")
    names = assignment.bot_names
    unknown = [bot_id for bot_id in names if bot_id not in values.bots]
    missing = [bot_id for bot_id in values.bots if bot_id not in names]
    if unknown:
        errors["bot_names"] = _("%(bots)s is none of the study's chatbots (%(known)s).") % {
            "bots": ", ".join(unknown),
            "known": ", ".join(values.bots) or _("none"),
        }
    elif len(set(names.values())) < len(names):
        errors["bot_names"] = _("Two chatbots have the same name. Give each another one.")
    elif assignment.choice == "names" and missing:
        errors["bot_names"] = _("%(bots)s has no name yet by which people could choose it.") % {
            "bots": ", ".join(missing)
        }
    return errors


def validate_pay(before: Study | None, study: Study, values: StudyValues) -> Errors:
    """Check that a study opens with a code, or on a panel with a way back, for every outcome.

    One that collects already may be changed without; a draft may lack whatever it likes.
    """
    is_opened = before is None or before.state != Study.State.COLLECTING
    if study.state != Study.State.COLLECTING or not is_opened:
        return {}
    recruitment = values.recruitment
    errors: Errors = {}
    for outcome in outcomes_possible(study):
        code, link = f"code_{outcome.value}", f"link_{outcome.value}"
        what = {"outcome": str(outcome.label)}
        if getattr(recruitment, code):
            continue
        if recruitment.platform == "prolific":
            errors[code] = _("The outcome “%(outcome)s” has no code. Make one in Prolific and paste it here.") % what
        elif recruitment.platform == "panel" and not getattr(recruitment, link):
            errors[link] = (
                _("The outcome “%(outcome)s” has no way back. Paste the panel's link for it, or its code.") % what
            )
    return errors


def outcomes_possible(study: Study) -> list[Outcome]:
    """Return the possible outcomes of the study's tasks: without chats, no chatbot can fail."""
    known = study.protocol in protocols
    without_bots = known and protocols.get(study.protocol).gives != "bots"
    return [one for one in Outcome if not (without_bots and one == Outcome.BOT_FAILED)]


def validate_opening(before: Study | None, study: Study, values: StudyValues) -> Errors:
    """Check that a study that opens has something to give: items, or installed bots.

    An open study may lose a bot later.
    """
    was_open = before is not None and before.state == Study.State.COLLECTING
    if study.protocol in protocols and protocols.get(study.protocol).gives != "bots":
        return _validate_items(study, values) if not was_open else {}
    bots = list(values.bots)
    if study.state != Study.State.COLLECTING or (was_open and before is not None and before.bots == bots):
        return {}
    if not bots:
        return {"bots": _("A study needs a bot to collect with. Choose one, or leave it a draft.")}
    unknown = bots_unknown(bots)
    return {"bots": " ".join(unknown)} if unknown else {}


def _validate_conversations(study: Study, values: StudyValues) -> Errors:
    run, of = values.marking.conversations_run, values.marking.conversations_of or study.key
    is_known = run is not None or Study.objects.filter(key=of).exists()
    if is_known and conversations_given(study, values).exists():
        return {}
    if run is not None:
        sentence = _("Run %(run)d has no completed conversation.")
        return {"conversations_run": sentence % {"run": run}}
    sentence = _(
        "The study “%(key)s” has no completed conversation. Name one that has some, or leave this one a draft and "
        "import some (import_conversations FILE --study %(key)s)."
    )
    return {"conversations_of": sentence % {"key": of}}


def _validate_dialogues(study: Study, values: StudyValues) -> Errors:
    """Check that there are conversations of two bots to compare."""
    of, run = values.dialogues.dialogues_of, values.dialogues.dialogues_run
    if of and not Study.objects.filter(key=of).exists():
        sentence = _("There is no study “%(key)s”. Leave it empty, or give the key of one.")
        return {"dialogues_of": sentence % {"key": of}}
    if study.pk is not None or of or run is not None:
        found = conversations_given(study, values).order_by()
        if len(set(found.values_list("bot__bot_id", flat=True).distinct()[:2])) == 2:
            return {}
    if run is not None:
        sentence = _("Run %(run)d has no completed conversations of two chatbots.")
        return {"dialogues_run": sentence % {"run": run}}
    sentence = _(
        "The study “%(key)s” has no completed conversations of two chatbots. Name one that has some, or leave this one "
        "a draft and import some (import_conversations FILE --study %(key)s)."
    )
    return {"dialogues_of": sentence % {"key": of or study.key}}


def _validate_items(study: Study, values: StudyValues) -> Errors:
    gives = protocols.get(study.protocol).gives
    if study.state == Study.State.COLLECTING and marks_turns(study):
        return _validate_conversations(study, values)
    if study.state == Study.State.COLLECTING and compares_dialogues(study):
        return _validate_dialogues(study, values)
    if study.state != Study.State.COLLECTING or gives != "items":
        return {}
    if protocols.get(study.protocol).has_one_item:
        return {}
    if study.pk is not None and items_given(study).exists():
        return _validate_replies(items_given(study), protocols.get(study.protocol).n_replies)
    if study.pk is not None and items_judged(study).exists():
        sentence = _(
            "None of the study's items has a reference with a score (reference, reference_score), beside which this "
            "protocol rates replies. Leave it a draft and import some."
        )
        return {"state": sentence}
    sentence = _(
        "The study has no items yet. Bring some in, in the first step of the builder or by import_items FILE --study "
        "%(key)s, and open it then."
    )
    return {"state": sentence % {"key": study.key}}


def validate_attention(before: Study | None, study: Study, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that attention checks can be passed, and that a study has some whose protocol wants them."""
    told = values.attention.errors(scales_of(values, rubric))
    if told:
        return {"attention_checks": " ".join(told)}
    was_open = before is not None and before.state == Study.State.COLLECTING
    if study.state != Study.State.COLLECTING or was_open or study.protocol not in protocols:
        return {}
    has_one = values.attention.attention_checks and values.attention.n_checks
    if not protocols.get(study.protocol).needs_checks or has_one:
        return {}
    sentence = _("This protocol needs an attention check: a reply that says which answer to choose.")
    return {"attention_checks": sentence}


def _validate_replies(items: QuerySet[Item], wanted: int | None) -> Errors:
    """Check that every item holds as many replies as the protocol shows."""
    if wanted is None:
        return {}
    others = items.exclude(
        **{f"responses__{wanted - 1}__isnull": False, f"responses__{wanted}__isnull": True}
    ).order_by("pk")
    if not (keys := list(others.values_list("key", flat=True)[:3])):
        return {}
    sentence = _("%(n)d items do not hold %(wanted)d replies each, such as %(keys)s. Take them out.")
    return {"state": sentence % {"n": others.count(), "wanted": wanted, "keys": ", ".join(f"“{key}”" for key in keys)}}


def validate_scales(study: Study, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that there are as many questions as the protocol's page has room for, on the scale that its sheet has."""
    if study.protocol not in protocols:
        return {}
    protocol = protocols.get(study.protocol)
    n_asked = len(scales_of(values, rubric))
    if protocol.n_asked is not None and n_asked != protocol.n_asked:
        sentence = ngettext(
            "The protocol “%(name)s” has room for %(n)d scale after its task, and there are %(found)d.",
            "The protocol “%(name)s” has room for %(n)d scales after its task, and there are %(found)d.",
            protocol.n_asked,
        )
        told = {"name": study.protocol, "n": protocol.n_asked, "found": n_asked}
        return {"after": sentence % told}
    scale = protocol.scale
    if scale is None:
        return {}
    wrong = [key for key, found in scales_of(values, rubric).items() if found != scale]
    if not wrong:
        return {}
    sentence = _("The protocol “%(name)s” asks on a scale from %(low)g to %(high)g, and “%(key)s” has another.")
    low, high = scale
    return {"after": sentence % {"name": study.protocol, "low": low, "high": high, "key": wrong[0]}}


def validate_selection(study: Study, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that there are more things to choose from than are chosen."""
    if study.protocol not in protocols or "choosing" not in protocols.get(study.protocol).settings:
        return {}
    wanted, n = values.choosing.n_choose, len(scales_of(values, rubric))
    if wanted < n:
        return {}
    sentence = _("There are %(n)d things to choose from, so fewer than %(wanted)d can be chosen.")
    return {"n_choose": sentence % {"n": n, "wanted": wanted}}


def validate_reference(study: Study, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that questions for one kind of talk are asked at all, and that weights come from another study."""
    errors: Errors = {}
    known = scales_of(values, rubric)
    taken = [key for key in ("direction", "reference_score", "kept_both") if key in known]
    if taken and study.protocol in protocols and protocols.get(study.protocol).needs_reference:
        sentence = _("This protocol has an answer of the name “%(key)s” itself; give the question another key.")
        errors["after"] = sentence % {"key": taken[0]}
    unknown = [key for key in values.referencing.asked_only_of if key not in known]
    if unknown:
        sentence = _("“%(key)s” is none of the questions %(known)s.")
        errors["asked_only_of"] = sentence % {"key": unknown[0], "known": ", ".join(known)}
    of = values.referencing.weights_study
    if of and (of == study.key or not Study.objects.filter(key=of).exists()):
        sentence = _("There is no other study “%(key)s”. Leave it empty, or give the key of one.")
        errors["weights_study"] = sentence % {"key": of}
    return errors


def validate_questions(study: Study, values: StudyValues) -> Errors:
    """Check that the protocol has a place for the questions before the task."""
    if not values.questions or study.protocol not in protocols or asks_questions(study.protocol):
        return {}
    sentence = _("The protocol “%(name)s” asks no questions before its tasks. Take them out.")
    return {"questions": sentence % {"name": protocols.get(study.protocol).title}}


def validate_names(before: Study | None, study: Study) -> Errors:
    """Check that protocol and rule are among those there are.

    What is stored already may stay while its plug-in is away.
    """
    errors: Errors = {}
    for field, registry in (("protocol", protocols), ("rule", rules)):
        name = getattr(study, field)
        if name not in registry and (before is None or getattr(before, field) != name):
            known = ", ".join(registry.names())  # type: ignore[attr-defined]
            errors[field] = _("“%(name)s” is none of %(known)s.") % {"name": name, "known": known}
    return errors


def validate_key(before: Study | None, study: Study) -> Errors:
    """Check that a new study's key is no word of the dashboard's addresses; an import brings its own."""
    if before is not None or study.is_imported or study.key not in RESERVED_KEYS:
        return {}
    return {"key": _("“%(key)s” is taken by a page. Choose another key.") % {"key": study.key}}


def validate_fixed_values(before: Study | None, study: Study, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that a study with consenting participants keeps the values that no version may change.

    Data from different versions are analysed together.
    """
    if before is None:
        return {}
    fields = [field for field in ("key", "protocol") if _differ(before, study, field)]
    if scales_of(before.values, before.rubric) != scales_of(values, rubric):
        fields.append("after" if values.after or before.values.after else "rubric")
    if not fields:
        return {}
    n_agreed = before.participants.filter(AGREED_BY_PEOPLE).count()
    if not n_agreed:
        return {}
    sentence = ngettext(
        "%(n)d person has agreed to take part as it was, so it cannot change. End this study, duplicate "
        "it (in its settings, under More), and change the copy.",
        "%(n)d people have agreed to take part as it was, so it cannot change. End this study, duplicate "
        "it (in its settings, under More), and change the copy.",
        n_agreed,
    ) % {"n": n_agreed}
    more = {
        "after": " " + _("Other words for the same scales are possible, and so are other questions."),
        "rubric": " " + _("A version of the rubric with the same questions and scales is possible."),
    }
    return {field: sentence + more.get(field, "") for field in fields}


def _differ(before: Study, after: Study, field: str) -> bool:
    return bool(getattr(before, field) != getattr(after, field))
