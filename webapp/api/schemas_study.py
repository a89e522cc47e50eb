"""Schemas of a study's pages: overview, live page, results, datasheet, report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from evaluation.data.result_tables import Cell
from webapp.api.schemas import JobOut, Words
from webapp.insights.live_bots import FailedReply, LiveBot, WaitingParticipant
from webapp.insights.live_progress import Hour
from webapp.insights.live_ranking import LiveRanking
from webapp.insights.report_document import Headline, ReportPart


class PairPeopleOut(Schema):
    """Further participants until two bots are decided; `high` is null if it is beyond the simulated number."""

    a: str
    b: str
    low: int
    high: int | None


class StoppingOut(Schema):
    """Forecast of when to stop a collecting study: the line of its pages, and its numbers.

    `next_low` to `next_high` more participants decide the next `n_next` pairs (10th to 90th percentile); with `n_later`
    others, deciding all takes more than `later_more_than`. Cost (with fees) and hours belong to the range. Null:
    unknown; `next_high` also if it is beyond the simulated number.
    """

    text: str
    n_ratings: int
    made_at: datetime
    n_pairs: int = Field(alias="forecast.n_pairs")
    n_decided: int = Field(alias="forecast.n_decided")
    n_people: int = Field(alias="forecast.n_people")
    n_next: int = Field(alias="forecast.n_next")
    next_low: int | None = Field(alias="forecast.next_low")
    next_high: int | None = Field(alias="forecast.next_high")
    n_later: int = Field(alias="forecast.n_later")
    later_more_than: int | None = Field(alias="forecast.later_more_than")
    pairs: list[PairPeopleOut] = Field(alias="forecast.pairs")
    currency: str
    cost_low: float | None
    cost_high: float | None
    hours_low: float | None
    hours_high: float | None


class CardsOut(Schema):
    """Counts of participants, conversations and ratings; null if not applicable.

    `n_completed` counts chats with bots, or tasks if participants rate items or stored conversations.
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
    """Bot's conversations by state.

    `reason` explains why it is not assigned, or its problem.
    """

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
    """Stage of a study: done, now (next), running, bad (failed) or later.

    `href` is its page.
    """

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
    """Stages from data collection to the report."""

    stages: list[StageOut]
    next: NextOut


class NeedOut(Schema):
    """Notice for researchers: bad, warn, info or wait.

    `href` is the page to act on it.
    """

    tone: str
    lead: str
    rest: str
    action: str
    href: str = Field(alias="address")


class OverviewOut(Schema):
    """Progress of a study.

    `pipeline` is null if items, finished conversations or pairs are rated.
    """

    key: str
    state: str
    n_synthetic: int
    cards: CardsOut
    bots: list[BotProgressOut]
    pipeline: PipelineOut | None
    stopping: StoppingOut | None
    needs: list[NeedOut]


class MetricProgressOut(Schema):
    """Progress of a metric over finished conversations.

    It counts values of the current and of older versions.
    """

    name: str
    title: str
    n_done: int
    n_total: int
    n_old: int
    n_left_out: int
    reason: str
    on_request: bool


class LeaderboardEntryOut(Schema):
    """Bot with its mean and interval, and its possible ranks.

    These are the best and worst rank that the tests allow; null for a control.
    """

    bot: str
    ranks: tuple[int, int] | None
    mean: float | None
    low: float | None
    high: float | None
    compared_mean: float
    n: int
    too_close: list[str]


class LeaderboardOut(Schema):
    """Leaderboard by one question.

    Bots in the same group do not differ significantly.
    """

    dimension: str
    level: float
    n_told_apart: int
    n_equal: int
    n_not_yet_known: int
    n_pairs: int
    groups: list[list[str]]
    places: list[LeaderboardEntryOut]


class StudyLeaderboard(Schema):
    """Leaderboard of `n_ratings` ratings at `made_at`.

    If data have changed since, `job` computes the new one.
    """

    questions: list[str]
    made_at: datetime | None
    n_ratings: int | None
    document: LeaderboardOut | None
    stopping: StoppingOut | None = None
    job: JobOut | None


class PairsOut(Schema):
    """Results of paired comparisons; null without comparisons.

    `document` and `one_turn` are as `report --json` prints them.
    """

    questions: dict[str, str]
    document: dict[str, Any] | None
    beside: str | None
    others: list[str]
    one_turn: dict[str, Any] | None


class LiveStageOut(Schema):
    """Stage of participants' flow through a study.

    `share` of those who left among those who went on or left, with interval.
    """

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
    """Bot in the last hour: reply times and failures.

    Times are the median and the 95th percentile, in seconds.
    """

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
    """Money paid to participants and charged by bots so far.

    `planned` is the planned total; null if unknown.
    """

    currency: str = Field(alias="planned.currency")
    people: float | None
    bots: float | None
    planned: float | None = Field(alias="planned.in_all")


class OrderOut(Schema):
    """State of the sequential ranking by a question.

    Counts pairs that differ significantly (anytime-valid) among those that can be tested.
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
    """Notice that needs a researcher now."""

    lead: str
    rest: str
    action: str
    href: str


class LiveOut(Schema):
    """State of the live page.

    `hours_left` until the target, at the pace of the last two hours.

    `n_opened` counts openings of the link, not people. `refused` counts visits that could not start, by reason. The
    first stage counts openings too, so its `left` is null.
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
    stopping: StoppingOut | None
    things: list[ThingOut]


class SheetAnswerOut(Schema):
    """Question of the human evaluation datasheet with its answers."""

    number: str
    criterion: str | None
    question: str
    from_study: str | None
    from_researchers: str | None
    to_be_answered: bool


class DeviationOut(Schema):
    """Part of a plan that changed after the study had opened."""

    part: str
    before: str
    after: str
    stored_at: datetime


class PlanOut(Schema):
    """Plan of a study as it was when it opened.

    `digest` is the SHA-256 of `plan.json` in the data package.
    """

    digest: str
    stored_at: datetime
    n_participants: int
    document: dict[str, Any]
    deviations: list[DeviationOut]


class DatasheetOut(Schema):
    """Human evaluation datasheet of a study."""

    heds: str
    study: str
    answers: list[SheetAnswerOut]


class HeadlineOut(Schema):
    """Headline number of a report; `why` explains a missing number or interval."""

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
    """Votes on a bot's replies.

    They have ups, downs, the number of conversations, and the share of upvotes with interval. The share is null without
    votes.
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
    """Votes on single replies by bot.

    Intervals have this level and are clustered by conversation.

    There are no ranks or tests, because participants vote only when they like.
    """

    level: float
    n: int
    bots: list[BotVotesOut]


class FlagKindOut(Schema):
    """Kind of flag.

    It has the numbers of participants and tasks with the flag, out of those checked.

    `why_none` explains why it could not be checked; ignore the counts in this case.
    """

    name: str
    title: Words
    rule: Words
    n_people: int
    n_tasks: int
    of: int = Field(alias="n_possible")
    why_none: Words


class FlagsOut(Schema):
    """Counts of participants with flags; null until `job` has computed them.

    `n_people` participants completed `n_tasks` tasks; `n_flagged` participants have a flag. `is_current` is false if
    there is newer work.
    """

    made_at: datetime | None
    is_current: bool
    n_people: int | None
    n_tasks: int | None
    n_flagged: int | None
    kinds: list[FlagKindOut]
    job: JobOut | None


class ReportCellOut(Schema):
    """Printed cell.

    `raw` has its numbers in full precision, `why` the reason of a missing one.
    """

    text: str
    raw: list[float | None]
    why: str

    @staticmethod
    def resolve_why(cell: Cell) -> str:
        return cell.reason


class ReportPartOut(Schema):
    """Numbers of a figure or table, with notes."""

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
    """Section of a report."""

    id: str
    title: str
    lead: list[str]
    points: list[str]
    missing: list[str]
    caution: str
    parts: list[ReportPartOut]


class ReportOut(Schema):
    """Newest report; `is_current` is true if data have not changed since."""

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
