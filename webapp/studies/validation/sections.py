"""Validation within one section of a study's settings, by field.

Reply filters and attention checks are validated here, too, against what is installed and the study's questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chatbots.bots.person import people_among, staff_among
from chatbots.text import did_you_mean, quote
from chatbots.validation import InputModel, Mistake
from webapp.bots.selectors import bots_taking_images
from webapp.studies.attention_checks import AttentionCheck, answers_beyond
from webapp.studies.conditions import MOST_COMBINATIONS, TAKEN_FACTOR_KEYS, Conditions, bots_of
from webapp.studies.models import Item, Outcome, Rubric, Study
from webapp.studies.protocol_settings import Judging
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.recruitment.settings import FILLED_IN, PLACEHOLDER, RecruitmentValues, frame_origins
from webapp.studies.reply_filters.base import reply_filters
from webapp.studies.rubrics import Scales, scales_of
from webapp.studies.safety import lines_without_helpline
from webapp.studies.settings import SECTION_OF, ChatRules, StudyValues
from webapp.studies.sittings import Sittings

Errors = dict[str, str]


@dataclass
class Checked:
    """Study under validation.

    Attributes:
        before: the study as it is stored; None for a new one.
        rubric: the questions after a task if the values have none; None: no questions then.
    """

    before: Study | None
    study: Study
    values: StudyValues
    rubric: Rubric | None

    @property
    def protocol(self) -> StudyProtocol | None:
        """The study's protocol; None if it is not installed."""
        return protocols.get(self.study.protocol) if self.study.protocol in protocols else None

    @property
    def is_open(self) -> bool:
        """True if the study is to collect data."""
        return bool(self.study.state == Study.State.COLLECTING)

    @property
    def was_open(self) -> bool:
        """True if the stored study collects data."""
        return self.before is not None and self.before.state == Study.State.COLLECTING

    @cached_property
    def scales(self) -> Scales:
        """The scale of each question that bots are rated on."""
        return scales_of(self.values, self.rubric)


def validate_chat_limits(chat: ChatRules) -> Errors:
    """Check that a chat can reach its minimum length."""
    limits = {
        "min_exchanges": (chat.min_exchanges, chat.max_exchanges, "exchanges"),
        "least_minutes": (chat.least_minutes or 0, chat.most_minutes or math.inf, "minutes"),
    }
    return {
        name: f"The minimum of {low} {unit} is above the maximum of {high}. Lower this number, or raise the other."
        for name, (low, high, unit) in limits.items()
        if low > high
    }


def validate_raters(judging: Judging) -> Errors:
    """Check that the numbers of raters per item are consistent.

    0 means no limit.
    """
    n_least, n_wanted, n_most = judging.raters_least, judging.raters_wanted, judging.raters_most
    advice = "Lower one of the two or raise the other."
    if n_wanted and n_least > n_wanted:
        return {"raters_least": f"The minimum of {n_least} raters is above the {n_wanted} wanted. {advice}"}
    low = max(n_least, n_wanted)
    return (
        {"raters_most": f"The maximum of {n_most} raters is below {low}. {advice}"} if n_most and low > n_most else {}
    )


def validate_frame_origins(recruitment: RecruitmentValues) -> Errors:
    """Check that the sites that may embed the study are origins."""
    _origins, wrong = frame_origins(recruitment.frame_ancestors)
    if not wrong:
        return {}
    if "*" in wrong[0]:
        reason = "would let sites of other people show the study. Use * only for the subdomains of one site, such as"
        return {"frame_ancestors": f"“{wrong[0]}” {reason} https://*.example.org."}
    words = f"“{wrong[0]}” is not an origin. Write each as https:// and a host, for example "
    return {"frame_ancestors": f"{words}https://survey.example.org, separated by spaces."}


def validate_links(recruitment: RecruitmentValues) -> Errors:
    """Check that every placeholder of a return link is known."""
    errors: Errors = {}
    known = (*FILLED_IN, *recruitment.parameters)
    offered = ", ".join(f"{{{name}}}" for name in known)
    for outcome in Outcome.values:
        field = f"link_{outcome}"
        link = getattr(recruitment, field)
        if "{" in re.split(r"[/?#]", link.partition("://")[2], maxsplit=1)[0]:
            errors[field] = "The host must not contain a placeholder: a participant's link could lead anywhere."
            continue
        unknown = [name for name in PLACEHOLDER.findall(link) if name not in known]
        if unknown:
            words = f"Unknown placeholder {{{unknown[0]}}}. Use one of {offered}"
            errors[field] = f"{words}, or add a URL parameter with that name."
    return errors


def validate_codes(recruitment: RecruitmentValues) -> Errors:
    """Check that each outcome has a different code.

    Platforms distinguish the outcomes by their codes.
    """
    errors: Errors = {}
    field_of: dict[str, str] = {}
    for outcome in Outcome.values:
        field = f"code_{outcome}"
        code = getattr(recruitment, field)
        if code and code in field_of:
            errors[field] = f"Another outcome already has the code {code}. Create one for each outcome on the platform."
        field_of.setdefault(code, field)
    return errors


def validate_design(conditions: Conditions) -> Errors:
    """Check the factors' keys and levels; errors have paths of values."""
    errors: Errors = {}
    keys: dict[str, str] = {}
    for i, factor in enumerate(conditions.factors):
        path = f"factors[{i}]"
        errors |= _key_errors(factor.key, path, keys)
        if factor.key.lower() in TAKEN_FACTOR_KEYS:
            errors[f"{path}.key"] = f"{quote(factor.key)} is the name of a column in exported tables; choose another."
        if len(factor.levels) < 2:
            errors[f"{path}.levels"] = f"A factor needs at least two levels; this one has {len(factor.levels)}."
        level_keys: dict[str, str] = {}
        for j, level in enumerate(factor.levels):
            inner = f"{path}.levels[{j}]"
            errors |= _key_errors(level.key, inner, level_keys)
            if level.is_control and level.has_text:
                errors[inner] = "A control level cannot have text. Remove the text, or set is_control to false."
            elif not (level.has_text or level.bots or level.is_control):
                errors[inner] = "The level has no text. Enter one, or set is_control for a level that shows nothing."
    if conditions.n_combinations > MOST_COMBINATIONS:
        words = f"The levels have {conditions.n_combinations} combinations; the maximum is {MOST_COMBINATIONS}."
        errors["factors"] = f"{words} Remove a factor, or some levels."
    return errors


def _key_errors(key: str, path: str, before: dict[str, str]) -> Errors:
    """Return an error if an earlier one has the same key.

    Case does not count: keys that differ only in case cannot be separate columns.
    """
    first = before.setdefault(key.lower(), path)
    return {} if first == path else {f"{path}.key": f"{first} already has the key {quote(key)}. Choose another key."}


def validate_parts(sittings: Sittings) -> Errors:
    """Check the parts' keys and gaps; errors have paths of values."""
    errors: Errors = {}
    keys: dict[str, str] = {}
    if len(sittings.parts) == 1:
        errors["parts"] = "A study with parts needs at least two. Add another one, or remove this one."
    for i, part in enumerate(sittings.parts):
        path, gap = f"parts[{i}]", part.after_days
        errors |= _key_errors(part.key, path, keys)
        if gap is not None and i == 0:
            errors[f"{path}.after_days"] = "The first part cannot have a gap before it. Remove the gap."
        elif gap is not None and gap.most is not None and gap.most < gap.least:
            words = f"A gap of {gap.least:g} to {gap.most:g} days ends before it starts."
            errors[f"{path}.after_days"] = f"{words} Lower the first number, or raise the second."
    return errors


SECTION_VALIDATORS: dict[str, tuple[Callable[[Any], Errors], ...]] = {
    "chat": (validate_chat_limits,),
    "judging": (validate_raters,),
    "recruitment": (validate_frame_origins, validate_links, validate_codes),
    "conditions": (validate_design,),
    "sittings": (validate_parts,),
}
"""Checks of a single section, which also run if other sections cannot be parsed."""


def section_errors(section: str, values: InputModel) -> Errors:
    """Return the errors within one section of `SECTION_VALIDATORS`: `{field: sentence}`."""
    return {field: sentence for check in SECTION_VALIDATORS[section] for field, sentence in check(values).items()}


def as_mistakes(errors: Errors) -> list[Mistake]:
    """Return field errors as mistakes with paths in the study's file."""
    return [_mistake(field, sentence) for field, sentence in errors.items()]


def _mistake(field: str, sentence: str) -> Mistake:
    section = SECTION_OF.get(re.split(r"[.\[]", field)[0])
    path = f"{section}.{field}" if section else {"rubric": "after"}.get(field, field)
    return Mistake(path, f"{path}: {sentence}")


_FIELDS = {"phrases": "filter_phrases", "classifier": "filter_model"}
"""Fields at which a filter's missing setting is reported; other filters report it at the list of filters."""


def validate_filters(on: Checked) -> Errors:
    """Check that every filter exists and, when the study opens, is available."""
    known, errors = reply_filters.names(), Errors()
    filtering = on.values.filtering
    for name in filtering.reply_filters:
        if name not in known:
            message = f"There is no filter “{name}”. Choose one of {', '.join(known)}."
            errors["reply_filters"] = f"{message} {did_you_mean(name, known)}".strip()
    is_unchanged = on.before is not None and on.was_open and on.before.values.filtering == filtering
    if errors or not on.is_open or is_unchanged:
        return errors
    for name in filtering.reply_filters:
        reply_filter = reply_filters.get(name)
        if (reason := reply_filter.unavailable_reason(on.values)) is not None:
            errors[_FIELDS.get(name, "reply_filters")] = f"The filter “{reply_filter.title}” cannot be used: {reason}."
    return errors


def validate_safety(on: Checked) -> Errors:
    """Check that a study that watches messages has a helpline text in each language, and a filter that exists."""
    safety, errors = on.values.safety, Errors()
    if safety.distress_filter and safety.distress_filter not in reply_filters.names():
        known = reply_filters.names()
        message = f"There is no filter “{safety.distress_filter}”. It must be one of {', '.join(known)}."
        errors["distress_filter"] = f"{message} {did_you_mean(safety.distress_filter, known)}".strip()
    if not safety.watches_messages:
        return errors
    if not safety.helpline_text.strip():
        errors["helpline_text"] = "Enter a helpline text, or do not watch messages."
    elif missing := lines_without_helpline(on.values):
        languages = ", ".join(sorted(missing))
        errors["helpline_text"] = f"Translate each line of the helpline text into {languages}."
    if on.is_open and not errors and safety.distress_filter:
        reply_filter = reply_filters.get(safety.distress_filter)
        if (reason := reply_filter.unavailable_reason(on.values)) is not None:
            errors["distress_filter"] = f"The filter “{reply_filter.title}” cannot be used: {reason}."
    return errors


def validate_points(on: Checked) -> Errors:
    """Check that the quiz refers only to existing points of the instructions."""
    n_points = len([line for line in on.values.texts.instructions_text.splitlines() if line.strip()])
    messages = [
        f"Question {number} refers to point {question.point}, but the instructions have {n_points}."
        for number, question in enumerate(on.values.checking.quiz_questions, start=1)
        if question.point > n_points
    ]
    return {"quiz_questions": " ".join(messages)} if messages else {}


def validate_conditions(on: Checked) -> Errors:
    """Check that the page after the task can hide questions."""
    if on.protocol is None or not any(question.show_when for question in on.values.after):
        return {}
    page = on.protocol.page
    if (page is None or page.sheet == "scales") and on.protocol.bots_at_once == 1:
        return {}
    words = f"The form of the protocol “{on.protocol.title}” always shows all questions. Remove show_when."
    return {"after": words}


def validate_goals(on: Checked) -> Errors:
    """Check that questions about goals follow a chat that has a goal."""
    about_goal = [question for question in on.values.after if question.only_with_goal]
    if not about_goal or on.protocol is None:
        return {}
    title = about_goal[0].title
    if on.study.protocol != "chat":
        words = f"The protocol “{on.protocol.title}” shows “{title}” in every condition. Remove only_with_goal."
        return {"after": words}
    factors = on.values.conditions.factors
    if any(level.goal.strip() for factor in factors for level in factor.levels):
        return {}
    return {"after": f"“{title}” is shown only if the condition has a goal, but no level has one."}


def validate_chat_checks(on: Checked) -> Errors:
    """Check that every attention check in a chat is reached."""
    checks, least = on.values.checking.chat_checks, on.values.chat.min_exchanges
    if not checks or on.protocol is None:
        return {}
    if on.protocol.gives != "bots":
        return {
            "chat_checks": f"The protocol “{on.protocol.title}” has no chats, so there is no chat to ask the check in."
        }
    messages = [
        f"Check {number} comes after {check.after} messages, but participants can rate after {least}."
        for number, check in enumerate(checks, start=1)
        if check.after > least
    ]
    if len({check.question for check in checks}) < len(checks):
        messages.append("Two checks have the same question. Remove one, or change its question.")
    return {"chat_checks": " ".join(messages)} if messages else {}


def validate_images(on: Checked) -> Errors:
    """Check that a bot of the study accepts images if participants may send them."""
    if not on.values.chat.images or on.protocol is None:
        return {}
    if not on.protocol.talks_to_bots or on.protocol.bots_at_once > 1:
        return {"images": f"The protocol “{on.protocol.title}” does not support images. Switch them off."}
    if bots_taking_images(on.values.bots) or not on.values.bots:
        return {}
    words = "No chatbot of this study accepts images. Add an endpoint bot whose parameters have"
    return {"images": f"{words} takes_images: true, or switch this off."}


def validate_check_items(on: Checked) -> Errors:
    """Check that attention checks among items look like the items.

    They need as many replies, and a reference reply if the items have one.
    """
    checks = on.values.attention.attention_checks
    if not checks or on.protocol is None:
        return {}
    errors = (
        _look_error(check, on.protocol) or (on.protocol.needs_reference and _reference_error(check, on.values))
        for check in checks
    )
    first_error = next((f"Check {number}{error}" for number, error in enumerate(errors, start=1) if error), "")
    return {"attention_checks": first_error} if first_error else {}


def _look_error(check: AttentionCheck, protocol: StudyProtocol) -> str:
    is_pair, has_reference = protocol.n_replies == 2, protocol.needs_reference
    if is_pair and not check.second_response:
        return " needs a second reply, because two are compared."
    if not is_pair and check.second_response:
        return " has a second reply, but one reply is rated at a time."
    if has_reference and not (check.reference and check.reference_score is not None):
        return " needs a reference reply and its score, like every other item."
    if not has_reference and (check.reference or check.reference_score is not None):
        return " has a reference reply, but this protocol shows none."
    return ""


def _reference_error(check: AttentionCheck, values: StudyValues) -> str:
    """Return an error about a check's known score or expected answer.

    The score must be on the scale, and checks are not asked questions about kinds of conversation.
    """
    rated = [question for question in values.after if question.is_rated]
    low, high = (
        min((question.low for question in rated), default=1),
        max((question.high for question in rated), default=5),
    )
    if rated and check.reference_score is not None and not low <= check.reference_score <= high:
        return f": the score {check.reference_score:g} is not from {low:g} to {high:g}."
    for question in values.after:
        if question.key in check.expected and question.key in values.referencing.asked_only_of:
            return f" expects an answer to “{question.title}”, which is asked only for certain kinds of conversation."
    return ""


def validate_attention(on: Checked) -> Errors:
    """Check that attention checks are possible, and present if required."""
    attention = on.values.attention
    wrong = [
        f"Check {number}: {beyond}"
        for number, check in enumerate(attention.attention_checks, start=1)
        if (beyond := answers_beyond(check.expected, on.scales))
    ]
    if wrong:
        return {"attention_checks": " ".join(wrong)}
    opens = on.is_open and not on.was_open
    has_one = attention.attention_checks and attention.n_checks
    if not opens or has_one or on.protocol is None or not on.protocol.needs_checks:
        return {}
    return {"attention_checks": "This protocol needs an attention check. Add a reply that says which answer to choose."}


def validate_gold_items(on: Checked) -> Errors:
    """Check the right answers of gold items against the study's questions."""
    if on.before is None or not on.values.attention.n_gold:
        return {}
    gold = Item.objects.filter(study=on.before, purpose=Item.Purpose.GOLD).order_by("pk")
    for key, expected in gold.values_list("key", "expected"):
        if wrong := answers_beyond(expected, on.scales):
            return {"n_gold": f"Gold item “{key}”: {wrong} Add the question, or correct the item."}
    return {}


def validate_sittings(on: Checked) -> Errors:
    """Check that parts that keep or remember a bot have one-bot chats."""
    sittings, errors = on.values.sittings, Errors()
    if not sittings.parts:
        return errors
    is_pair = on.protocol is not None and on.protocol.bots_at_once > 1
    for name in ("same_bot", "bots_remember"):
        if getattr(sittings, name) and on.protocol is not None and (is_pair or on.protocol.gives != "bots"):
            errors[name] = f"The protocol “{on.protocol.title}” has no chat with one chatbot. Switch this off."
    return errors


def validate_cells(on: Checked) -> Errors:
    """Check that conditions and bots match.

    Every condition needs a bot and every bot a condition, and no factor may be named like a question.
    """
    conditions, bots = on.values.conditions, on.values.bots
    if not conditions.factors:
        return {}
    if on.protocol is not None and on.protocol.gives != "bots":
        return {"factors": f"The protocol “{on.protocol.title}” has no chats, so it has no conditions. Remove them."}
    errors: Errors = {}
    question_keys = {question.key for question in (*on.values.questions, *on.values.after)} | on.scales.keys()
    for i, factor in enumerate(conditions.factors):
        if factor.key in question_keys:
            errors[f"factors[{i}].key"] = f"A question already has the key {quote(factor.key)}. Choose another key."
        for j, level in enumerate(factor.levels):
            if unknown := [bot_id for bot_id in level.bots if bot_id not in bots]:
                near = did_you_mean(unknown[0], bots) or "remove it, or add it to the study."
                words = (
                    f"“{', '.join(unknown)}” is not a chatbot of this study ({', '.join(bots) or 'it has none'}); "
                    f"{near}"
                )
                errors[f"factors[{i}].levels[{j}].bots"] = words
    if not bots or conditions.n_combinations > MOST_COMBINATIONS:
        return errors
    bots_by_levels = {levels: bots_of(levels, bots) for levels in conditions.combinations()}
    least = on.protocol.bots_at_once if on.protocol is not None else 1
    empty = [
        " with ".join(f"“{level.key}”" for level in levels)
        for levels, with_it in bots_by_levels.items()
        if len(with_it) < least
    ]
    bots_without_cell = [bot_id for bot_id in bots if all(bot_id not in with_it for with_it in bots_by_levels.values())]
    messages = []
    if empty:
        such = f"{', '.join(empty[:3])}{' and more' if len(empty) > 3 else ''}"
        none = "No chatbot has" if least == 1 else "No two chatbots have"
        messages.append(f"{none} {such}. Change the chatbots of these levels.")
    if bots_without_cell:
        messages.append(
            f"{', '.join(bots_without_cell)} has no level in at least one factor. Assign it to a level, or add a "
            "level for all chatbots."
        )
    return {**errors, "factors": " ".join(messages)} if messages else errors


def validate_people(on: Checked) -> Errors:
    """Check a study with human partners.

    It needs a chat, and must state when participants learn of their partner.
    """
    people, errors = people_among(on.values.bots), Errors()
    if not people:
        return errors
    such = ", ".join(people)
    if on.protocol is not None and "people" not in on.protocol.settings:
        words = f"{such} is a person, but the protocol “{on.protocol.title}” allows only chatbots."
        errors["bots"] = f"{words} Remove it, or choose the protocol “chat”."
    if on.is_open and on.values.people.disclosure == "none":
        errors["disclosure"] = (
            f"{such} is a person. Choose whether this is disclosed before consent or on the last page."
        )
    bots, conditions = on.values.bots, on.values.conditions
    combinations = conditions.combinations() if 0 < conditions.n_combinations <= MOST_COMBINATIONS else [()]
    staff = set(staff_among(people))
    has_no_bot = bool(staff) and any(set(bots_of(levels, bots)) <= staff for levels in combinations)
    if on.is_open and has_no_bot and on.values.people.without_partner == "bot":
        errors["without_partner"] = (
            "No chatbot can continue the chat if no partner joins. Add one (to every condition, if there are "
            "conditions), or let participants end with pay."
        )
    for i, factor in enumerate(on.values.conditions.factors):
        for j, level in enumerate(factor.levels):
            if level.opening.strip() and (not level.bots or set(level.bots) & set(people)):
                words = f"{such} is a person, who writes or answers the first message. Remove this text"
                errors[f"factors[{i}].levels[{j}].opening"] = f"{words}, or exclude {such} from the level's chatbots."
    return errors
