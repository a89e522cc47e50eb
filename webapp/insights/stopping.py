"""Line on when to stop a study: decided pairs, and the people, money and hours until more are decided.

A worker computes the forecast with the ranking (`OrderState`); Overview, People, Leaderboard, the API and
`list_studies` show the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evaluation.findings import reason_read
from evaluation.stats.stopping import FEW_RATERS, FEWEST_RATERS, SHARED_ITEMS, round_people
from webapp.core.language import plural
from webapp.insights.live_progress import completed_tasks, tasks_per_hour
from webapp.insights.narrative import phrases
from webapp.insights.study_plan import cost_of
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import OrderState, Study
from webapp.studies.recruitment.completion import money_about

IN_REACH = 400
"""Further people up to which a range is written as a plan; twice the people so far, if that is more."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


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
    n_open = forecast["n_pairs"] - forecast["n_decided"]
    return StoppingLine(
        lead=_decided_sentence(forecast["n_decided"], forecast["n_pairs"]),
        rest=_rest(forecast, n_open, n_left, _in_brackets(numbers, cost.currency)),
        tone="info" if n_open else "good",
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


def _decided_sentence(n_decided: int, n_pairs: int) -> str:
    if n_decided == n_pairs:
        return "The pair is decided." if n_pairs == 1 else f"All {n_pairs} pairs are decided."
    are = plural(n_pairs, "pair is decided.", "pairs are decided.")
    return f"{n_decided} of {n_pairs} {are}"


def _rest(forecast: Mapping[str, Any], n_open: int, n_left: int | None, brackets: str) -> str:
    """Compose everything after the number of decided pairs."""
    if not n_open:
        return "More people will hardly change this, so you can close the study."
    reason = None if forecast["reason"] is None else reason_read(forecast["reason"])
    if reason is not None and reason.code == FEW_RATERS.code:
        return (
            f"Confab forecasts when to stop once every bot has {FEWEST_RATERS} raters; the fewest now are "
            f"{forecast['fewest_raters']}."
        )
    if reason is not None and reason.code == SHARED_ITEMS.code:
        return "There is no forecast, because several people rate the same items: more people alone may not help."
    sentences = [_next_sentence(forecast, n_open, brackets)]
    if forecast["n_later"]:
        sentences.append(f"Deciding all {_number(n_open)} takes more than {forecast['later_more_than']:,}.")
    if n_left is not None:
        sentences.append(f"The plan has {phrases.people_text(n_left)} left.")
    return " ".join(sentences)


def is_in_reach(forecast: Mapping[str, Any]) -> bool:
    """Return True if the next range ends at a number of people that a study may still recruit."""
    high = forecast["next_high"]
    return high is not None and high <= max(IN_REACH, 2 * forecast["n_people"])


def _next_sentence(forecast: Mapping[str, Any], n_open: int, brackets: str) -> str:
    n_next, low, high = forecast["n_next"], forecast["next_low"], forecast["next_high"]
    which = "the last one" if n_open == 1 else f"{_number(n_next)} more"
    if is_in_reach(forecast):
        return f"{low:,} to {max(high, low + 1):,} more people{brackets} should decide {which}."
    most = "far more" if high is None else f"up to {high:,}"
    return f"{phrases.people_text(low).replace(' ', ' more ')} will not decide {which}; it may take {most}."


def _number(n: int) -> str:
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)


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
