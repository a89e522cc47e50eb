"""Writes of imported records: study, rubric, and conversations in batches.

All writes are idempotent: conversations are unique by study, external id and bot, ratings by conversation and external
id.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, repeat
from typing import Any

from django.db import transaction

import chatbots
from chatbots import derive_seed
from chatbots.text import error_text, quote
from evaluation.data.formats.base import Record, RecordRating, Skipped, record_name
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.data.ratings import rater_named
from webapp.bots.models import BotVersion
from webapp.bots.services import bot_version_record_imported
from webapp.conversations.models import Conversation, Turn
from webapp.core.bulk_rows import rows_insert
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.studies.models import AGREED_BY_PEOPLE, Dimension, Rubric, Study
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.rubrics import rubric_create, rubric_freeze
from webapp.studies.services import participants_named, study_create
from webapp.studies.versions import study_edit

Key = tuple[str, str, str]
"""Key of an imported conversation: its source, its id there and its bot (`Record.key`)."""


@dataclass(frozen=True, slots=True)
class ImportedBatch:
    """Number of new rows of a batch, and the records that failed."""

    conversations: int
    ratings: int
    skipped: list[Skipped] = field(default_factory=list)


@contextmanager
def unfinished_import(study: Study) -> Iterator[None]:
    """Mark a study as incomplete during its import.

    A failure stores the reason.
    """
    studies = Study.objects.filter(pk=study.pk)
    studies.update(import_error="The import did not finish.")
    try:
        yield
    except Exception as error:
        studies.update(import_error=error_text(error, 500) or type(error).__name__)
        raise
    studies.update(import_error="")


def study_for_import(*, key: str, bots: Collection[str], seen: Mapping[str, Scale], scales: FileScales) -> Study:
    """Return the study for imported records, with a matching rubric.

    A study made by an import gets a new version of its rubric when the file has further dimensions or
    values beyond its scales, and its ratings move there. A study that was not made by an import is never
    changed.

    Args:
        bots: all bots of the file.
        seen: smallest and largest value of every dimension in the file.
        scales: given by the researcher; otherwise inferred from the observed values.

    Raises:
        Refused: the key is invalid; or the rubric of a study that was not created by an import lacks a dimension, or
            has another scale for it.
    """
    with transaction.atomic():
        study = Study.objects.select_for_update(of=("self",)).filter(key=key).first()
        if study is None:
            if not re.fullmatch(r"[-a-zA-Z0-9_]{1,60}", key):
                raise Refused("bad_key", f"the study key is {quote(key)}; use letters, digits, - and _, at most 60")
            return study_create(
                key=key,
                name=key,
                bots=sorted(bots),
                rubric=_rubric(key, seen, scales),
                state=Study.State.ENDED,
                is_imported=True,
            )
        rows = list(study.rubric.dimensions.all())
        stored = {dimension.key: dimension.scale for dimension in rows}
        if not study.is_imported:
            _check_fits(study, stored, seen)
            return study
        changed: dict[str, Any] = {}
        more_bots = sorted({*study.bots, *bots})
        if more_bots != sorted(study.bots):
            changed["bots"] = more_bots
        known_scales = scales_known(study, scales)
        new_scales = {
            name: known_scales.get(name) or _wider(stored.get(name), seen.get(name))
            for name in dict.fromkeys([*stored, *seen])
        }
        _check_stored(study, scales)
        inferred = {row.key for row in rows if row.scale_inferred}
        if new_scales != stored or inferred != {name for name in new_scales if known_scales.get(name) is None}:
            old = study.rubric
            rubric = _rubric(old.name, new_scales, known_scales, earlier={row.key: row for row in rows})
            changed["rubric"] = rubric
            Rating.objects.filter(conversation__study=study, rubric=old).update(rubric=rubric)
            if old.frozen_at:
                rubric_freeze(rubric_id=rubric.pk)
        if changed:
            study = _changed(study, changed)
        return study


def language_checked(language: str) -> str:
    """Return a language code as stored (`de`, `pt-br`); empty for empty.

    Raises:
        Refused: `bad_language`.
    """
    code = language.strip().lower()
    if code and not (len(code) <= 20 and re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{2,8})*", code)):
        raise Refused("bad_language", f"the language is {quote(language)}; use an ISO 639 code such as en, de or pt-br")
    return code


def records_store(*, study: Study, records: Sequence[Record], language: str = "") -> ImportedBatch:
    """Store a batch; existing rows only get a missing language.

    A record whose key is that of a stored conversation with other turns is skipped with the reason.
    """
    with transaction.atomic():
        # Concurrent imports into a study take turns, so that stored rows cannot conflict with new ones.
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        keyed_records, skipped, ids, n_new = _conversations(study, records, language)
        if language:
            rated_ids = [ids[key] for key, _record in keyed_records]
            Conversation.objects.filter(pk__in=rated_ids, language="").update(language=language)
        n_ratings, refused = _ratings(study, keyed_records, ids)
        if n_ratings:
            rubric_freeze(rubric_id=study.rubric_id)
    return ImportedBatch(n_new, n_ratings, [*skipped, *refused])


def _conversations(
    study: Study, records: Sequence[Record], language: str
) -> tuple[list[tuple[Key, Record]], list[Skipped], dict[Key, uuid.UUID], int]:
    """Store new conversations.

    Returns:
        Stored records with the keys of their conversations; other records; all ids; number of new ones.
    """
    stored_ids = _stored_ids(study, records)
    turns_there = _turns_of(stored_ids.values())
    versions: dict[tuple[str, str], BotVersion] = {}
    keyed_records: list[tuple[Key, Record]] = []
    skipped: list[Skipped] = []
    first: dict[Key, Record] = {}
    for record in records:
        key = record.key
        if record.ratings_only:
            conversation_key = _rated(record, [*stored_ids, *first])
            if isinstance(conversation_key, Skipped):
                skipped.append(conversation_key)
            else:
                keyed_records.append((conversation_key, record))
            continue
        if key in stored_ids or key in first:
            stored = turns_there.get(stored_ids[key], ()) if key in stored_ids else first[key].turns
            if stored == record.turns:
                keyed_records.append((key, record))
            else:
                reason = f"{record_name(record)} is already in the study, with different turns"
                skipped.append(Skipped(record.line, reason))
            continue
        first[key] = record
        keyed_records.append((key, record))
        if (record.bot, record.source) not in versions:
            version = bot_version_record_imported(bot_id=record.bot, source=record.source)
            versions[record.bot, record.source] = version
    # Ascending, so that lists show the order of the file and the indexes are filled in order.
    new = dict(zip(first, sorted(uuid.uuid4() for _record in first), strict=True))
    chats = (
        _chat_row(study, record, new[key], versions[record.bot, record.source], language)
        for key, record in first.items()
    )
    rows_insert(Conversation, _CHAT_COLUMNS, chats)
    rows_insert(Turn, _TURN_COLUMNS, _turn_rows({new[key]: record for key, record in first.items()}))
    return keyed_records, skipped, {**stored_ids, **new}, len(new)


_CHAT_COLUMNS = (
    *("id", "source", "state", "bot_id", "study_id", "external_id", "language", "condition", "seed", "n_exchanges"),
    "ended_at",
)
_TURN_COLUMNS = ("conversation_id", "index", "speaker", "text", "vote", "trace", "created_at")
_RATING_COLUMNS = (
    *("conversation_id", "participant_id", "rater", "external_id", "rubric_id", "answers", "comment", "submitted_at"),
)


def _turn_rows(records: Mapping[uuid.UUID, Record]) -> Iterator[Sequence[Any]]:
    """Yield the columns of the turns of new conversations; turns without a time in the file have the current one."""
    now = database_now()
    for pk, record in records.items():
        times = record.times or repeat(now)
        for i, (turn, time) in enumerate(zip(record.turns, times, strict=False)):
            yield pk, i, turn.speaker, turn.text, turn.vote, record.traces.get(i, []), time


def _rated(record: Record, known_keys: Collection[Key]) -> Key | Skipped:
    """Return the conversation of a record with ratings only.

    Its bot may be unnamed.
    """
    matching_keys = [
        key for key in known_keys if _external_id(key) == record.external_id and record.bot in ("", key[2])
    ]
    if len(matching_keys) == 1:
        return matching_keys[0]
    if matching_keys:
        bots = ", ".join(sorted(key[2] for key in matching_keys))
        reason = f"several bots have a conversation {quote(record.external_id)}: {bots}; name the bot"
    else:
        of_bot = f" of bot {quote(record.bot)}" if record.bot else ""
        reason = f"the study has no conversation {quote(record.external_id)}{of_bot} to rate"
    return Skipped(record.line, reason)


def _external_id(key: Key) -> str:
    source, dialogue, _bot = key
    return f"{source}/{dialogue}" if source else dialogue


def _chat_row(study: Study, record: Record, pk: uuid.UUID, version: BotVersion, language: str) -> Sequence[Any]:
    values = chatbots.Conversation(id="", turns=record.turns)
    return (
        pk,
        Conversation.Source.IMPORT,
        Conversation.State.COMPLETED,
        version.pk,
        study.pk,
        record.external_id,
        language,
        dict(record.condition),
        derive_seed(0, "import", record.external_id),
        values.n_exchanges,
        record.times[-1] if record.times else None,
    )


def _ratings(
    study: Study, keyed_records: Sequence[tuple[Key, Record]], ids: Mapping[Key, uuid.UUID]
) -> tuple[int, list[Skipped]]:
    """Store new ratings; conflicting ratings of a rater are reported, not stored."""
    people = _participants(study, [record for _key, record in keyed_records])
    now = database_now()
    rows: list[Sequence[Any]] = []
    skipped: list[Skipped] = []
    stored: dict[uuid.UUID, dict[str, Any]] = defaultdict(dict)
    touched = Rating.objects.filter(conversation_id__in={ids[key] for key, _record in keyed_records})
    for conversation_id, name, answers in touched.values_list("conversation_id", "external_id", "answers"):
        stored[conversation_id][name] = answers
    for key, record in keyed_records:
        stored_answers = stored[ids[key]]
        used: set[str] = set()
        for rating in record.ratings:
            answers = dict(rating.answers)
            # Without a rater name, equal answers count as the same rating, others as another rater's.
            name = next(
                name
                for name in (rating_external_id(rating, n) for n in count(1))
                if name not in used and (rating.rater or stored_answers.get(name, answers) == answers)
            )
            used.add(name)
            if name in stored_answers:
                if stored_answers[name] != answers:
                    reason = (
                        f"rater {quote(rating.rater)} has already rated {record_name(record)} with different answers"
                    )
                    skipped.append(Skipped(record.line, reason))
                continue
            stored_answers[name] = answers
            # Live chats allow one rating per participant; a rater's additional ones in a file are stored by name.
            participant_id = people.get(rating.rater) if name == rating.rater else None
            submitted_at = rating.submitted_at or now
            rows.append(
                (
                    *(ids[key], participant_id, rating.rater, name, study.rubric_id, answers, rating.comment),
                    submitted_at,
                )
            )
    rows_insert(Rating, _RATING_COLUMNS, rows)
    return len(rows), skipped


def rating_external_id(rating: RecordRating, occurrence: int) -> str:
    """Return a rating's external id: its rater, numbered if not unique."""
    return rating.rater if rating.rater and occurrence == 1 else f"{rating.rater}#{occurrence}"


def _participants(study: Study, records: Sequence[Record]) -> dict[str, uuid.UUID]:
    names = {rating.rater for record in records for rating in record.ratings if rater_named(rating.rater) is not None}
    if not names:
        return {}
    return participants_named(study=study, platform=IMPORT_PLATFORM, names=names)


def _stored_ids(study: Study, records: Collection[Record]) -> dict[Key, uuid.UUID]:
    """Return stored conversations with the records' external ids, for any bot."""
    conversations = Conversation.objects.filter(
        study=study, source=Conversation.Source.IMPORT, external_id__in={record.external_id for record in records}
    )
    ids: dict[Key, uuid.UUID] = {}
    for pk, name, bot, params in conversations.values_list("pk", "external_id", "bot__bot_id", "bot__params"):
        source = params.get("source", "")
        ids[source, name.removeprefix(f"{source}/") if source else name, bot] = pk
    return ids


def _turns_of(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, tuple[chatbots.Turn, ...]]:
    turns_by_chat: dict[uuid.UUID, tuple[chatbots.Turn, ...]] = {}
    rows = Turn.objects.filter(conversation_id__in=list(ids)).order_by("conversation_id", "index")
    for pk, speaker, text, vote in rows.values_list("conversation_id", "speaker", "text", "vote"):
        turns_by_chat[pk] = (*turns_by_chat.get(pk, ()), chatbots.Turn(speaker, text, vote))  # type: ignore[arg-type]
    return turns_by_chat


def scales_known(study: Study, scales: FileScales) -> FileScales:
    """Return the given scales and those of earlier imports."""
    rows = study.rubric.dimensions.filter(scale_inferred=False)
    earlier = {row.key: row.scale for row in rows} if scales.default is None else {}
    return FileScales(scales.default, {**earlier, **scales.by_question})


def _rubric(
    name: str, seen: Mapping[str, Scale], file_scales: FileScales, *, earlier: Mapping[str, Dimension] | None = None
) -> Rubric:
    """Create a rubric with a question per dimension.

    Questions have their own scales if needed.

    Args:
        earlier: rows of the previous rubric, whose direction and labels are kept.
    """
    scales = {key: file_scales.get(key) or ends for key, ends in seen.items()}
    low, high = file_scales.default or (
        (min(pair[0] for pair in scales.values()), max(pair[1] for pair in scales.values())) if scales else (1.0, 7.0)
    )
    if low == high:  # only one value was observed
        high = low + 1
    dimensions = []
    for key, (own_low, own_high) in scales.items():
        has_own_scale = own_low < own_high and (own_low, own_high) != (low, high)
        title = key.replace("_", " ").capitalize()
        before = (earlier or {}).get(key, Dimension())
        dimensions.append(
            Dimension(
                key=key,
                title=title,
                question=title,
                required=False,
                reversed=before.reversed,
                low_label=before.low_label,
                high_label=before.high_label,
                labels=before.labels,
                low=own_low if has_own_scale else None,
                high=own_high if has_own_scale else None,
                scale_inferred=file_scales.get(key) is None,
            )
        )
    return rubric_create(
        name=name[:100],
        dimensions=dimensions,
        low=low,
        high=high,
        scale_inferred=any(row.scale_inferred for row in dimensions),
    )


def _wider(stored: Scale | None, seen: Scale | None) -> Scale:
    if stored is None or seen is None:
        return stored or seen or (1.0, 7.0)
    return min(stored[0], seen[0]), max(stored[1], seen[1])


def _check_fits(study: Study, scales: Mapping[str, Scale], seen: Mapping[str, Scale]) -> None:
    for name, (low, high) in seen.items():
        if name not in scales:
            questions_text = ", ".join(scales) or "nothing"
            raise Refused(
                "other_rubric",
                f"the file rates {quote(name)}, but study {quote(study.key)} asks for {questions_text}; import the "
                "file into a separate study",
            )
        if low < scales[name][0] or high > scales[name][1]:
            raise Refused(
                "other_scale",
                f"the file rates {quote(name)} from {low:g} to {high:g}, but study {quote(study.key)} uses a scale "
                f"from {scales[name][0]:g} to {scales[name][1]:g}; import the file into a separate study",
            )


def _changed(study: Study, changed: dict[str, Any]) -> Study:
    """Apply a file's changes to the study; refused once participants have consented."""
    n_agreed = study.participants.filter(AGREED_BY_PEOPLE).count()
    if n_agreed:
        raise Refused(
            "agreed",
            f"the file would change {' and '.join(changed)} of study {quote(study.key)}, and {n_agreed} "
            "participants have agreed to the current version; import the file into a separate study",
        )
    return study_edit(study=study, **changed)


def _check_stored(study: Study, scales: FileScales) -> None:
    """Check that given scales also contain the stored values.

    Raises:
        Refused: `other_scale`, with the value beyond it.
    """
    if not scales:
        return
    answers = Rating.objects.filter(conversation__study=study).values_list("answers", flat=True)
    for rating_answers in answers.iterator(chunk_size=2000):
        for name, value in rating_answers.items():
            scale = scales.get(name)
            if scale is not None and not scale[0] <= value <= scale[1]:
                raise Refused(
                    "other_scale",
                    f"study {quote(study.key)} already contains {name} = {value:g}, which is not on the scale from "
                    f"{scale[0]:g} to {scale[1]:g}",
                )
