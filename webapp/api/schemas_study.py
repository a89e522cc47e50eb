"""Schemas of a study's pages: overview, live page, leaderboard, pairs, datasheet and report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from webapp.api.schemas import JobOut, Words
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.live_bots import FailedReply, LiveBot, WaitingParticipant
from webapp.dashboard.live_progress import Hour
from webapp.dashboard.live_ranking import LiveRanking
from webapp.dashboard.report_document import Headline, ReportPart


class CardsOut(Schema):
    """Numbers of participants, conversations and ratings; null where there is none to give.

    `n_completed` counts chats with bots, or tasks where participants rate items or stored conversations.
    """

    n_completed: int
    n_wanted: int
    n_people: int
    n_ratings: int
    n_raters: int
    n_left: int
    n_over: int
    left_early: float | None
    mean_exchanges: float | None
    median_s: float | None


class BotProgressOut(Schema):
    """A bot's conversations by state; `reason` says why it is not offered, or what is wrong with it all the same."""

    bot_id: str
    title: str
    is_control: bool
    n_completed: int
    n_open: int
    n_failed: int
    n_withdrawn: int
    n_by_others: int
    is_offered: bool
    reason: str


class StageOut(Schema):
    """A stage of the line: done, now (next), running, bad (failed) or later; `href` is its page."""

    title: str
    tone: Literal["done", "now", "running", "bad", "later"]
    words: str
    href: str


class NextOut(Schema):
    """Recommended next step.

    `action` is `analyse` or `selfplay`, which `POST /studies/KEY/analysis` starts, or empty.
    """

    title: str
    words: str
    action: str
    href: str
    job: JobOut | None


class PipelineOut(Schema):
    """The line from collecting to the report."""

    stages: list[StageOut]
    next: NextOut


class NeedOut(Schema):
    """Something that needs a researcher: bad, warn, info or wait; `href` is where it is done."""

    tone: str
    lead: str
    rest: str
    action: str
    href: str = Field(alias="address")


class OverviewOut(Schema):
    """Progress of a study; `pipeline` is null where items, finished conversations or pairs are rated."""

    key: str
    state: str
    n_synthetic: int
    cards: CardsOut
    bots: list[BotProgressOut]
    pipeline: PipelineOut | None
    needs: list[NeedOut]


class MetricProgressOut(Schema):
    """Progress of a metric: finished conversations measured in its present version, and in older ones."""

    name: str
    title: str
    n_done: int
    n_total: int
    n_old: int
    n_left_out: int
    reason: str
    on_request: bool


class LeaderboardEntryOut(Schema):
    """A bot: the best and the worst rank that the tests leave open (null for a control), and its mean with interval."""

    bot: str
    ranks: tuple[int, int] | None
    mean: float | None
    low: float | None
    high: float | None
    compared_mean: float
    n: int
    too_close: list[str]


class LeaderboardOut(Schema):
    """Leaderboard by one question; bots of one of the `groups` do not differ significantly."""

    dimension: str
    level: float
    n_told_apart: int
    n_equal: int
    n_not_yet_known: int
    n_pairs: int
    groups: list[list[str]]
    places: list[LeaderboardEntryOut]


class StudyLeaderboard(Schema):
    """The leaderboard of `n_ratings` ratings at `made_at`; where data have changed since, `job` makes the new one."""

    questions: list[str]
    made_at: datetime | None
    n_ratings: int | None
    document: LeaderboardOut | None
    job: JobOut | None


class PairsOut(Schema):
    """Results of paired comparisons; null without any.

    `document` and `one_turn` are as `report --json` prints them.
    """

    questions: dict[str, str]
    document: dict[str, Any] | None
    beside: str | None
    others: list[str]
    one_turn: dict[str, Any] | None


class LiveStageOut(Schema):
    """A stage of the way through a study; `share` of those who left among those who went on or left, with interval."""

    name: str
    title: Words
    n: int
    now: int
    on_way: int
    ended: int
    left: int | None = Field(alias="n_left")
    share: float | None
    low: float | None
    high: float | None


class LiveBotOut(Schema):
    """A bot in the last hour: seconds until a reply stood there in the middle and in 95 % of cases, and what failed."""

    id: str = Field(alias="info.bot_id")
    title: str = Field(alias="info.title")
    state: Words = Field(alias="words")
    reason: Words
    is_set_aside: bool
    n_done: int
    wanted: int | None = Field(alias="n_wanted")
    median_s: float | None
    most_s: float | None
    n_replies: int
    n_failed: int
    n_paced: int
    n_late: int
    n_naming: int

    @staticmethod
    def resolve_is_set_aside(bot: LiveBot) -> bool:
        return bot.aside is not None


class MoneyOut(Schema):
    """Money paid to participants and charged by bots so far; `planned` for all; null where it is not known."""

    currency: str = Field(alias="planned.currency")
    people: float | None
    bots: float | None
    planned: float | None = Field(alias="planned.in_all")


class OrderOut(Schema):
    """State of the sequential ranking by a question.

    It counts the pairs that differ significantly (anytime-valid), of those that could be tested.
    """

    key: str
    title: Words
    level: int
    n_told_apart: int
    n_pairs: int
    n_ratings: int
    made_at: datetime
    sentences: list[str]

    @staticmethod
    def resolve_sentences(order: LiveRanking) -> list[str]:
        return [f"{sentence.lead} {sentence.rest}".strip() for sentence in order.sentences]


class ThingOut(Schema):
    """Something that needs a researcher now."""

    lead: str
    rest: str
    action: str
    href: str


class LiveOut(Schema):
    """The live room at one moment; `hours_left` until the wanted ones are there, as it went in the last two hours.

    `n_opened` counts openings of the link, not people. `refused` counts visits that could not start, by reason.
    The first stage counts openings, too, so its `left` is null.
    """

    state: str
    n_opened: int = Field(alias="people.totals.n_opened")
    n_agreed: int = Field(alias="people.n_agreed")
    n_inside: int = Field(alias="people.n_inside")
    n_done: int = Field(alias="pace.n_done")
    n_wanted: int = Field(alias="pace.n_wanted")
    hours_left: float | None = Field(alias="pace.hours_left")
    refused: dict[str, int] = Field(alias="people.totals.refused")
    stages: list[LiveStageOut] = Field(alias="people.stages")
    bots: list[LiveBotOut]
    waiting: list[WaitingParticipant]
    n_waiting: int
    failed: list[FailedReply]
    hours: list[Hour] = Field(alias="pace.hours")
    money: MoneyOut
    orders: list[OrderOut]
    things: list[ThingOut]


class SheetAnswerOut(Schema):
    """A question of the human evaluation datasheet with its answers."""

    number: str
    criterion: str | None
    question: str
    from_study: str | None
    from_researchers: str | None
    to_be_answered: bool


class DatasheetOut(Schema):
    """The human evaluation datasheet of a study."""

    heds: str
    study: str
    answers: list[SheetAnswerOut]


class HeadlineOut(Schema):
    """A number that stands above a report; `why` says why it or its interval is missing."""

    key: str
    what: str
    text: str
    value: float | None
    low: float | None
    high: float | None
    interval: str
    why: str

    @staticmethod
    def resolve_why(headline: Headline) -> str:
        return headline.reason


class BotVotesOut(Schema):
    """The votes on a bot's replies: up, down, of how many conversations, and the share that is up with its interval.

    Without a vote there is no share.
    """

    bot: str
    title: str
    is_control: bool
    up: int
    down: int
    n_chats: int
    share: float | None
    low: float | None
    high: float | None


class VotesOut(Schema):
    """The votes on single replies, bot by bot; the interval has this level, conversations being clusters.

    There are no ranks: people vote when they like, so nothing is tested.
    """

    level: float
    n: int
    bots: list[BotVotesOut]


class FlagKindOut(Schema):
    """A kind of flag: the number of participants with it, and of tasks with it, of those that could have it.

    `why_none` explains why it could not be looked for; then the counts mean nothing.
    """

    name: str
    title: Words
    rule: Words
    n_people: int
    n_tasks: int
    of: int = Field(alias="n_possible")
    why_none: Words


class FlagsOut(Schema):
    """Counts of the flags of a study's participants; null before they are first made, which `job` does.

    `n_people` did `n_tasks` tasks to their end, and `n_flagged` of them have a flag. Where `is_current` is false, work
    has
    come in since.
    """

    made_at: datetime | None
    is_current: bool
    n_people: int | None
    n_tasks: int | None
    n_flagged: int | None
    kinds: list[FlagKindOut]
    job: JobOut | None


class ReportCellOut(Schema):
    """A cell as it is printed; `raw` has the numbers in it with all digits, `why` the reason that there is none."""

    text: str
    raw: list[float | None]
    why: str

    @staticmethod
    def resolve_why(cell: Cell) -> str:
        return cell.reason


class ReportPartOut(Schema):
    """A figure's or table's numbers with what is to be minded."""

    id: str
    label: str
    title: str
    method: str
    note_lead: str
    note: str
    headers: list[str]
    rows: list[list[ReportCellOut]] = Field(alias="table.rows")

    @staticmethod
    def resolve_headers(part: ReportPart) -> list[str]:
        return [header.text for header in part.table.headers]


class ChapterOut(Schema):
    """A section of a report."""

    id: str
    title: str
    lead: list[str]
    points: list[str]
    missing: list[str]
    caution: str
    parts: list[ReportPartOut]


class ReportOut(Schema):
    """The newest report; `is_current` is true if it is of the present data."""

    study: str
    name: str
    like: str
    made: datetime
    is_current: bool
    n_ratings: int
    n_conversations: int
    summary: list[str]
    headlines: list[HeadlineOut]
    chapters: list[ChapterOut]
