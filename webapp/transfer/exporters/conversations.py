"""One row per conversation, in the interchange form: as JSON Lines the file can be imported again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Prefetch

from webapp.conversations.models import Conversation, Turn
from webapp.quality.models import TaskFlag
from webapp.ratings.models import Rating
from webapp.results.flags import flags_now
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    STATES,
    ExportColumn,
    ExportOptions,
    Source,
    conversations_included,
    dialogue_id,
    rater_of,
    register_exporter,
)

_COLUMNS = (
    ExportColumn("dialogue_id", "text", "Id of the conversation in its source."),
    ExportColumn("bot", "text", "Id of the bot."),
    ExportColumn("source", "text", "Where it comes from: the imported source, or the study."),
    ExportColumn("turns", "json", "Utterances in order: speaker, text, and vote on bot turns."),
    ExportColumn(
        "ratings", "json", "One per rater: rater, the rubric's dimensions, comment if there is one."
    ),
    ExportColumn("conversation", "text", "Id of the conversation here."),
    ExportColumn("bot_version", "text", "Key of the bot's identity: name, version, parameters."),
    ExportColumn("state", "text", "open, completed or failed.", STATES),
    ExportColumn("n_exchanges", "integer", "Human turns that the bot answered."),
    ExportColumn("seed", "text", "Seed of all randomness of the bot; a text, for it has 63 bits."),
    ExportColumn("is_synthetic", "boolean", "The participant was a script."),
    ExportColumn(
        "participant",
        "text",
        "Random id of the participant; empty in imported data and self-play.",
        is_person=True,
    ),
    ExportColumn("created_at", "time", "When the conversation was begun, or imported."),
    ExportColumn("ended_at", "time", "When it was rated or given up."),
    ExportColumn(
        "flags",
        "json",
        "Names of the flags of the participant’s work, a list; none of them decides anything.",
    ),
    ExportColumn(
        "language",
        "text",
        "Code of the language, as an import said it; empty where it is told by the words.",
    ),
)
_OF_RUN = (
    ExportColumn(
        "partner", "text", "Id of the bot that begins; empty where the bot converses with itself."
    ),
    ExportColumn(
        "ordinal", "integer", "Number of the conversation among those of its bots, from 0."
    ),
)
"""Of self-play, beside the others."""


@register_exporter
class Conversations:
    name = packaged = "conversations"
    title = "Conversations"
    description = (
        "One row per conversation with turns and ratings inside; as JSON Lines it can be imported."
    )
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS if isinstance(study, Study) else (*_COLUMNS, *_OF_RUN)

    def count(self, study: Study, options: ExportOptions) -> int:
        return conversations_included(study, options).count()

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        is_run = not isinstance(study, Study)
        if isinstance(study, Study):
            flags_now(study, exact=True)
        chosen = conversations_included(study, options)
        found = (chosen.select_related("bot", "selfplay") if is_run else chosen).prefetch_related(
            Prefetch("turns", Turn.objects.order_by("index")),
            Prefetch("ratings", Rating.objects.order_by("id")),
            Prefetch("participant__flags", TaskFlag.objects.order_by("name")),
        )
        for row in found.iterator(chunk_size=200):
            yield [
                dialogue_id(row.pk, row.external_id, row.bot.params),
                row.bot.bot_id,
                row.bot.params.get("source", "") if row.external_id else _source_name(study),
                [_turn(turn) for turn in row.turns.all()],
                [_rating(rating) for rating in row.ratings.all()],
                str(row.pk),
                row.bot.key,
                row.state,
                row.n_exchanges,
                str(row.seed),
                row.is_synthetic,
                str(row.participant_id) if row.participant_id else None,
                row.created_at,
                row.ended_at,
                _flags(row),
                row.language,
                *([row.selfplay.partner_bot_id, row.selfplay.ordinal] if is_run else []),
            ]


def _source_name(source: Source) -> str:
    return source.key if isinstance(source, Study) else f"selfplay-{source.pk}"


def _flags(row: Conversation) -> list[str]:
    if row.participant is None:
        return []
    return list(dict.fromkeys(flag.name for flag in row.participant.flags.all()))


def _turn(turn: Turn) -> dict[str, Any]:
    values: dict[str, Any] = {"speaker": turn.speaker, "text": turn.text}
    if turn.speaker == Turn.Speaker.BOT:
        values["vote"] = turn.vote
    return values


def _rating(rating: Rating) -> dict[str, Any]:
    rater = rater_of(rating.rater, rating.participant_id)
    values: dict[str, Any] = {"rater": rater} if rater else {}
    values.update(rating.answers)
    if rating.comment:
        values["comment"] = rating.comment
    return values
