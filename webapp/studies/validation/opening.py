"""Validators of opening: the bots, conversations and items that a study needs for it."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.bots.selectors import bots_unknown
from webapp.studies.models import Item, Study
from webapp.studies.protocols.base import StudyProtocol
from webapp.studies.selectors import conversations_given, items_given, items_judged
from webapp.studies.settings import StudyValues
from webapp.studies.validation.sections import Checked, Errors


def validate_opening(on: Checked) -> Errors:
    """Check that an opening study has items or installed bots to assign.

    An open study may lose a bot later.
    """
    study, protocol = on.study, on.protocol
    if not on.is_open:
        return {}
    if protocol is not None and protocol.gives != "bots":
        if on.was_open:
            return {}
        if protocol.marks_turns:
            return _validate_conversations(study, on.values)
        if protocol.compares_dialogues:
            return _validate_dialogues(study, on.values)
        return {} if protocol.gives != "items" or protocol.has_one_item else _validate_items(study, protocol)
    bots = list(on.values.bots)
    if protocol is not None and len(bots) == 1 < protocol.bots_at_once:
        return {
            "bots": f"The protocol “{protocol.title}” compares chatbots; the study has one ({bots[0]}). Add another."
        }
    if on.was_open and on.before is not None and on.before.bots == bots:
        return {}
    if not bots:
        return {"bots": "The study has no bot. Choose one before you open the study."}
    unknown = bots_unknown(bots)
    return {"bots": " ".join(unknown)} if unknown else {}


def _validate_conversations(study: Study, values: StudyValues) -> Errors:
    run, source_key = values.marking.conversations_run, values.marking.conversations_of or study.key
    is_known = run is not None or Study.objects.filter(key=source_key).exists()
    if is_known and conversations_given(study, values).exists():
        return {}
    if run is not None:
        return {"conversations_run": f"Run {run} has no completed conversation."}
    return {"conversations_of": _without_conversations(source_key, "completed conversation")}


def _validate_dialogues(study: Study, values: StudyValues) -> Errors:
    """Check that there are conversations between two bots to compare."""
    source_key, run = values.dialogues.dialogues_of, values.dialogues.dialogues_run
    if source_key and not Study.objects.filter(key=source_key).exists():
        return {"dialogues_of": f"There is no study “{source_key}”. Enter the key of a study, or leave this empty."}
    if study.pk is not None or source_key or run is not None:
        conversations = conversations_given(study, values).order_by()
        if len(set(conversations.values_list("bot__bot_id", flat=True).distinct()[:2])) == 2:
            return {}
    if run is not None:
        return {"dialogues_run": f"Run {run} has no completed conversations of two chatbots."}
    return {"dialogues_of": _without_conversations(source_key or study.key, "completed conversations of two chatbots")}


def _without_conversations(key: str, content: str) -> str:
    return (
        f"The study “{key}” has no {content}; chats of rehearsals do not count. Choose another study, or keep this one "
        f"as a draft and import some first (import_conversations FILE --study {key})."
    )


def _validate_items(study: Study, protocol: StudyProtocol) -> Errors:
    if study.pk is not None and protocol.needs_criteria and (lacking := items_judged(study).filter(criteria=[])):
        keys = ", ".join(f"“{key}”" for key in lacking.order_by("pk").values_list("key", flat=True)[:3])
        return {
            "state": f"Items without criteria: {lacking.count():,}, for example {keys}. Remove them, then import them "
            "again with `criteria`."
        }
    if study.pk is not None and items_given(study).exists():
        return _validate_replies(items_given(study), protocol.n_replies, protocol.most_replies or protocol.n_replies)
    words = (
        "There are no items yet. Import some in the first step of the builder or with import_items FILE --study "
        f"{study.key}, then open the study."
    )
    if study.pk is not None and items_judged(study).exists():
        words = (
            "This protocol rates replies next to a reference with a score, but no item has one (reference, "
            "reference_score). Import some first; keep the study as a draft until then."
        )
    return {"state": words}


def _validate_replies(items: QuerySet[Item], minimum: int | None, maximum: int | None) -> Errors:
    """Check that every item has the replies that the protocol needs."""
    if minimum is None:
        return {}
    invalid_items = items.exclude(**{f"responses__{minimum - 1}__isnull": False, f"responses__{maximum}__isnull": True})
    invalid_items = invalid_items.order_by("pk")
    if not (keys := list(invalid_items.values_list("key", flat=True)[:3])):
        return {}
    such = ", ".join(f"“{key}”" for key in keys)
    n_replies = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
    return {
        "state": f"{invalid_items.count()} items do not have {n_replies} replies each, for example {such}. Remove them."
    }
