"""Line on when to stop a study: decided pairs, and the people, money and hours until more are decided.

A worker computes the forecast with the ranking (`OrderState`); Overview, People, Leaderboard, the API and
`list_studies` show the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evaluation.analysis.stopping import decided_sentence, is_in_reach, next_sentences
from evaluation.stats.stopping import round_people
from webapp.insights.live_progress import completed_tasks, tasks_per_hour
from webapp.insights.study_plan import cost_of
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import OrderState, Study
from webapp.studies.recruitment.completion import money_about


@dataclass(frozen=True, slots=True)
class StoppingLine:
    """Forecast in words and numbers.

    Attributes:
        lead, rest: bold first words, and the rest.
        tone: "good" if every pair is decided.
        forecast: numbers, as `StoppingForecast.to_json` returns them.
        n_ratings, made_at: ratings that the forecast is based on, and its time.
        cost_low, cost_high: cost of the next range with fees, in `currency`; None without pay or range.
        hours_low, hours_high: time for it at the pace of the last two hours; None if unknown.
    """

    lead: str
    rest: str
    tone: str
    forecast: Mapping[str, Any]
    n_ratings: int
    made_at: datetime
    currency: str
    cost_low: float | None = None
    cost_high: float | None = None
    hours_low: float | None = None
    hours_high: float | None = None

    @property
    def text(self) -> str:
        """The whole line."""
        return f"{self.lead} {self.rest}".strip()


@dataclass(frozen=True, slots=True)
class _Rates:
    """Tasks of a participant, and participants per hour; None if unknown."""

    tasks_per_person: float
    people_per_hour: float | None


def stopping_line(study: Study, state: OrderState | None, *, now: datetime) -> StoppingLine | None:
    """Return the line of a study that collects; None if there is no forecast or no use for it."""
    forecast = state.found.get("forecast") if state is not None else None
    if state is None or not forecast or not is_collecting(study) or not forecast["n_pairs"]:
        return None
    n_done, hourly = completed_tasks(study), tasks_per_hour(study, now)
    per_person = max(n_done / forecast["n_people"], 1.0) if forecast["n_people"] else 1.0
    rates = _Rates(per_person, None if hourly is None else hourly / per_person)
    cost = cost_of(study)
    numbers = _cost_and_hours(study, forecast, rates)
    n_left = max(0, round((cost.n - n_done) / per_person)) if cost.n else None
    return StoppingLine(
        lead=decided_sentence(forecast),
        rest=next_sentences(forecast, brackets=_in_brackets(numbers, cost.currency), n_left=n_left),
        tone="info" if forecast["n_decided"] < forecast["n_pairs"] else "good",
        forecast=forecast,
        n_ratings=state.n_ratings,
        made_at=state.made_at,
        currency=cost.currency,
        **numbers,
    )


def _cost_and_hours(study: Study, forecast: Mapping[str, Any], rates: _Rates) -> dict[str, float]:
    """Return the cost and the hours of the next range, as far as known."""
    low, high = forecast["next_low"], forecast["next_high"]
    if not is_in_reach(forecast):
        return {}
    numbers: dict[str, float] = {}
    task_cost = cost_of(study, 1).in_all
    if task_cost:
        each = task_cost * rates.tasks_per_person
        numbers |= {"cost_low": low * each, "cost_high": high * each}
    if rates.people_per_hour:
        numbers |= {"hours_low": low / rates.people_per_hour, "hours_high": high / rates.people_per_hour}
    return numbers


def _in_brackets(numbers: Mapping[str, float], currency: str) -> str:
    """Write cost and hours in brackets, each as a range; empty if neither is known."""
    parts = []
    if "cost_low" in numbers:
        parts.append(" to ".join(money_about(numbers[end], currency) for end in ("cost_low", "cost_high")))
    if "hours_low" in numbers:
        parts.append(f"{_hours_span(numbers['hours_low'], numbers['hours_high'])} at this pace")
    return f" ({', '.join(parts)})" if parts else ""


def _hours_span(low: float, high: float) -> str:
    """Write a range of hours in minutes, hours or days, rounded outwards."""
    unit, size = ("minutes", 1 / 60) if high < 2 else ("hours", 1.0) if high < 48 else ("days", 24.0)
    start, end = round_people(max(1, int(low / size)), up=False), round_people(int(-(-high // size)), up=True)
    return f"{start:,} to {max(end, start + 1):,} {unit}"
