"""Validators that compare several sections of a study, or ask the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from evaluation.data.populations import read_margins, validate_margin_answers
from webapp.bots.selectors import bots_unpriced
from webapp.core.clock import database_now
from webapp.studies.assignment.capacity import has_planned_number
from webapp.studies.assignment.rules.base import rules
from webapp.studies.helped_draws import item_pool, read_item_scores
from webapp.studies.models import AGREED_BY_PEOPLE, Outcome, Study
from webapp.studies.protocols.base import asks_questions, get_protocol, protocols
from webapp.studies.recruitment.completion import pay_in_all
from webapp.studies.rubrics import scales_of
from webapp.studies.settings import StudyValues
from webapp.studies.study_agreements import studies_named_by
from webapp.studies.validation.sections import Checked, Errors

RESERVED_KEYS = ("new",)
"""Pages below `/dashboard/studies/` use these names."""


def validate_cap(on: Checked) -> Errors:
    """Check that every bot has a price if there is a cap."""
    if on.values.quotas.max_cost is None or not (unpriced := bots_unpriced(list(on.values.bots))):
        return {}
    words = f"The price of {', '.join(unpriced)} is unknown, so Confab cannot tell when the cost limit is reached. "
    advice = "Add price_in and price_out to its entry in bots.yaml (0 if it is free), or remove the cost limit."
    return {"max_cost": words + advice}


def validate_closing(on: Checked) -> Errors:
    """Check that the closing rules can apply, and that a study that opens does not close at once."""
    closing, values, errors = on.values.closing, on.values, Errors()
    has_number = values.quotas.n_conversations_wanted or values.assignment.has_quotas or values.conditions.has_quota
    if closing.closes_when_full and not has_number:
        errors["closes_when_full"] = "The study has no planned number. Enter one, or untick this."
    if closing.budget is not None and not pay_in_all(values):
        errors["budget"] = "Without pay per task the cost is unknown. Enter the pay, or remove the budget."
    elif closing.budget is not None and values.sittings.parts:
        errors["budget"] = (
            "A study with parts cannot close at a budget, because participants could not return for their next part. "
            "Set the number of participants instead."
        )
    if not on.is_open or on.was_open:
        return errors
    if closing.ends_at is not None and closing.ends_at <= database_now():
        errors["closes_on"] = f"The last day, {closing.closes_on}, is over. Choose a later one, or remove it."
    if closing.closes_when_full and on.before is not None and has_planned_number(on.before):
        errors["closes_when_full"] = "The planned number is already reached. Raise it, or untick this."
    return errors


def validate_spread_source(on: Checked) -> Errors:
    """Check that the study exists whose ratings the plan uses."""
    key = on.values.quotas.spread_of
    if not key or Study.everywhere.filter(key=key, project=on.study.project_id).exists():
        return {}
    return {"spread_of": f"There is no study “{key}”. Enter the key of a study in this project, or leave this empty."}


def validate_smallest_difference(on: Checked) -> Errors:
    """Check that the smallest difference of interest is possible on the scale."""
    smallest, widths = on.values.quotas.smallest_difference, [high - low for low, high in on.scales.values()]
    widths += [score.high - score.low for score in (on.protocol.scores(on.values) if on.protocol else ())]
    if on.protocol is not None and on.protocol.scale == (-1, 1):
        widths = [2.0]
    if smallest is None or not widths or smallest < max(widths):
        return {}
    return {"smallest_difference": f"Two bots cannot differ by more than {max(widths):g}. Enter a smaller number."}


def validate_margins(on: Checked) -> Errors:
    """Check that the population's table names questions and answers of this study."""
    possible = {question.key: question.possible for question in on.values.questions if question.is_background}
    error = validate_margin_answers(read_margins(on.values.planning.margins), possible)
    return {"margins": error} if error else {}


def validate_earlier_studies(on: Checked) -> Errors:
    """Check that the studies named in the participation limits exist."""
    errors = Errors()
    for name in ("only_after_studies", "never_after_studies"):
        keys = set(getattr(on.values.recruitment, name).split())
        studies = Study.everywhere.filter(studies_named_by(on.study.project_id), key__in=keys)
        known = set(studies.values_list("key", flat=True)) if keys else set()
        if on.study.key in keys:
            errors[name] = f"“{on.study.key}” is this study itself. Remove it; the study's own limits already apply."
        elif missing := sorted(keys - known):
            errors[name] = (
                f"There is no study “{missing[0]}”. Enter keys of studies in this project, or of studies that another "
                "project has agreed to (Settings, Projects)."
            )
    return errors


def validate_bot_quotas(on: Checked) -> Errors:
    """Check that separate quotas are only set for the study's bots."""
    unknown = _no_bots(on, on.values.assignment.bot_quotas)
    return {"bot_quotas": f"{unknown} Remove it here, or add it to the study."} if unknown else {}


def _no_bots(on: Checked, bot_ids: Collection[str]) -> str:
    """Return an error about names that are not the study's bots."""
    bots = on.values.bots
    unknown = [bot_id for bot_id in bot_ids if bot_id not in bots]
    if not unknown:
        return ""
    return f"“{', '.join(unknown)}” is not a chatbot of this study ({', '.join(bots) or 'it has none'})."


def validate_bots_in_a_row(on: Checked) -> Errors:
    """Check that there are enough bots for each participant."""
    n, has = on.values.assignment.bots_in_a_row, len(on.values.bots)
    if n < 2 or n <= has or on.study.protocol != "chat" or on.study.state == Study.State.DRAFT:
        return {}
    return {
        "bots_in_a_row": f"The study has {has} chatbots, so participants cannot chat with {n}. Add some, or lower this "
        "number."
    }


def validate_bot_choice(on: Checked) -> Errors:
    """Check that participants can choose among the bots, by distinct names."""
    assignment, errors = on.values.assignment, Errors()
    if assignment.choice != "none" and assignment.bots_in_a_row > 1:
        errors["choice"] = "Participants who chat with several chatbots cannot choose one. Change one of the two."
    names = assignment.bot_names
    missing = [bot_id for bot_id in on.values.bots if bot_id not in names]
    if unknown := _no_bots(on, names):
        errors["bot_names"] = unknown
    elif len(set(names.values())) < len(names):
        errors["bot_names"] = "Two chatbots have the same name. Give each a different name."
    elif assignment.choice == "names" and missing:
        errors["bot_names"] = f"{', '.join(missing)} has no name for participants to choose. Enter one."
    return errors


def validate_pay(on: Checked) -> Errors:
    """Check that every outcome has a code or return link.

    Drafts and studies that already collect data may lack them.
    """
    recruitment, errors = on.values.recruitment, Errors()
    if not on.is_open or on.was_open:
        return errors
    for outcome in outcomes_possible(on.study, on.values):
        code, link = f"code_{outcome.value}", f"link_{outcome.value}"
        if getattr(recruitment, code):
            continue
        if recruitment.platform == "prolific":
            errors[code] = f"The outcome “{outcome.label}” has no code. Create one in Prolific and paste it here."
        elif recruitment.platform == "panel" and not getattr(recruitment, link):
            words = f"The outcome “{outcome.label}” has no return link."
            errors[link] = f"{words} Paste the panel's link for it, or its code."
    return errors


def outcomes_possible(study: Study, values: StudyValues | None = None) -> list[Outcome]:
    """Return the possible outcomes of the study's tasks.

    Without chats no chatbot can fail, and without gaps nobody can be late.

    Args:
        values: values that the study will have; None: its current ones.
    """
    closes = any(part.gap.most is not None for part in (values or study.values).sittings.parts)
    never = {Outcome.BOT_FAILED: not get_protocol(study).talks_to_bots, Outcome.LATE: not closes}
    return [outcome for outcome in Outcome if not never.get(outcome)]


def validate_scales(on: Checked) -> Errors:
    """Check that the number of questions and their scales suit the protocol."""
    if on.protocol is None:
        return {}
    name, room, scale = on.study.protocol, on.protocol.n_asked, on.protocol.scale
    if room is not None and len(on.scales) != room:
        scales = "scale" if room == 1 else "scales"
        words = f"The protocol “{name}” needs {room} {scales} after its task, but the study has {len(on.scales)}."
        return {"after": words}
    wrong = [key for key, question_scale in on.scales.items() if question_scale != scale]
    if scale is None or not wrong:
        return {}
    low, high = scale
    return {"after": f"The protocol “{name}” uses a scale from {low} to {high}, but “{wrong[0]}” has a different one."}


def validate_selection(on: Checked) -> Errors:
    """Check that fewer options must be chosen than exist."""
    if on.protocol is None or "choosing" not in on.protocol.settings:
        return {}
    n_to_choose, n = on.values.choosing.n_choose, len(on.scales)
    if n_to_choose < n:
        return {}
    message = f"With {n} options, participants must choose fewer than {n}, not {n_to_choose}. Lower this number."
    return {"n_choose": message}


def validate_helper(on: Checked) -> Errors:
    """Check that a judge can help, and on opening that its items have known probabilities."""
    helping, judging, quotas = on.values.helping, on.values.judging, on.values.quotas
    if not helping.helper:
        words = "Choose the judge whose uncertainty this is, or leave this empty."
        return {"helper_uncertainty": words} if helping.helper_uncertainty else {}
    if on.protocol is not None and "helping" not in on.protocol.settings:
        words = f"The protocol “{on.protocol.title}” does not rate replies one by one, so no judge can help."
        return {"helper": f"{words} Leave this empty."}
    if not on.is_open:
        return {}
    errors: Errors = {}
    for name in ("raters_wanted", "raters_most"):
        if getattr(judging, name):
            errors[name] = (
                "Items with enough raters are no longer drawn, so with a judge’s help their probabilities are unknown. "
                "Enter 0 and limit the number of tasks instead, or let no judge help."
            )
    if quotas.max_conversations_per_participant != 1 or on.values.sittings.parts:
        errors["max_conversations_per_participant"] = (
            "With a judge’s help, each participant can do only one task: the probabilities of items in a second task "
            "are unknown. Enter 1, or let no judge help."
        )
    if on.study.pk is None or (on.was_open and on.before is not None and on.before.values.helping == helping):
        return errors
    pool = item_pool(on.study)
    bot, n_fewest = min(Counter(pool.values()).items(), key=lambda row: row[1], default=("", 0))
    if pool and judging.n_items > n_fewest * len(set(pool.values())):
        errors["n_items"] = (
            f"Each task has equally many items of every chatbot, but {bot or 'the one without a name'} has only "
            f"{n_fewest}. Lower this number, add items, or let no judge help."
        )
    for name, score_name in (("helper", helping.helper), ("helper_uncertainty", helping.helper_uncertainty)):
        if score_name and pool and pool.keys().isdisjoint(read_item_scores(on.study, score_name).scores):
            errors[name] = (
                f"All {len(pool)} items lack a value by “{score_name}”. Import scores of the items, compute the metric "
                "for the conversations that they were drawn from, or let no judge help."
            )
    return errors


def validate_reference(on: Checked) -> Errors:
    """Check questions about kinds of conversation, and the source of weights."""
    errors, referencing = Errors(), on.values.referencing
    names: Collection[str] = ()
    if on.protocol is not None:
        names = on.protocol.taken_keys(on.values)
    if clashing_keys := [key for key in (*on.scales, *(question.key for question in on.values.after)) if key in names]:
        words = f"This protocol already uses the key “{clashing_keys[0]}”. Give the question another key."
        errors["after"] = words
    unknown = [key for key in referencing.asked_only_of if key not in on.scales]
    if unknown:
        errors["asked_only_of"] = f"“{unknown[0]}” is not a question of this study ({', '.join(on.scales)})."
    weights_key = referencing.weights_study
    if weights_key and (weights_key == on.study.key or not Study.objects.filter(key=weights_key).exists()):
        errors["weights_study"] = (
            f"There is no other study “{weights_key}”. Enter the key of a study, or leave this empty."
        )
    return errors


def validate_questions(on: Checked) -> Errors:
    """Check that the protocol can ask questions before the task."""
    if not on.values.questions or on.protocol is None or asks_questions(on.study.protocol):
        return {}
    return {"questions": f"The protocol “{on.protocol.title}” asks no questions before its tasks. Remove them."}


def validate_own_marking(on: Checked) -> Errors:
    """Check that labelling during the chat has no other questions."""
    other_questions = [question for question in on.values.after if not question.is_rated]
    if (
        not get_protocol(on.study).marks_own_chats
        or on.values.own_marking.marked_when == "after"
        or not other_questions
    ):
        return {}
    title = other_questions[0].title
    words = f"When replies are labelled during the chat, no other question can be asked. Remove “{title}”."
    return {"after": words}


def validate_names(on: Checked) -> Errors:
    """Check that the protocol and the assignment rule exist.

    A stored name is accepted while its plug-in is missing.
    """
    errors: Errors = {}
    for field, known in (("protocol", protocols.names()), ("rule", rules.names())):
        name = getattr(on.study, field)
        if name not in known and (on.before is None or getattr(on.before, field) != name):
            errors[field] = f"There is no “{name}”. Choose one of {', '.join(known)}."
    return errors


def validate_key(on: Checked) -> Errors:
    """Check that a new study's key is not a reserved address.

    Imported studies bring their own keys.
    """
    is_kept = on.before is not None and on.before.key == on.study.key
    if is_kept or on.study.is_imported or on.study.key not in RESERVED_KEYS:
        return {}
    return {"key": f"“{on.study.key}” is the address of a page. Choose another key."}


def validate_fixed_values(on: Checked) -> Errors:
    """Check that values that no version may change stay, once participants consented.

    Data from different versions are analysed together.
    """
    before, values = on.before, on.values
    if before is None:
        return {}
    fields = [field for field in ("key", "protocol") if getattr(before, field) != getattr(on.study, field)]
    if scales_of(before.values, before.rubric) != on.scales:
        fields.append("after" if values.after or before.values.after else "rubric")
    marking = before.values.error_marking
    fields += [name for name, weight in values.error_marking if getattr(marking, name) != weight]
    n_agreed = before.participants.filter(AGREED_BY_PEOPLE).count() if fields else 0
    if not n_agreed:
        return {}
    people = "participant has" if n_agreed == 1 else "participants have"
    sentence = (
        f"{n_agreed} {people} already consented, so this cannot change. Close the study, duplicate it (in its "
        "settings, under More), and change the copy."
    )
    advice = {
        "after": " You can still reword questions on the same scales and change other questions.",
        "rubric": " You can still use a version of the rubric with the same questions and scales.",
    }
    return {field: sentence + advice.get(field, "") for field in fields}
