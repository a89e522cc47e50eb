"""The forecast of when to stop a study in sentences, for pages, commands, the API and notebooks.

The functions read a forecast as `StoppingForecast.to_json` returns it, because servers store it in this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evaluation.analysis.comparisons import compare
from evaluation.analysis.leaderboard import forecast_stopping
from evaluation.data.ratings import Ratings
from evaluation.data.tables import text_table
from evaluation.findings import reason_read
from evaluation.number_format import pluralise
from evaluation.stats.stopping import FEW_RATERS, FEWEST_RATERS, SHARED_ITEMS, StoppingForecast

IN_REACH = 400
"""Further people up to which a range is written as a plan; twice the people so far, if that is more."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, slots=True, repr=False)
class StoppingOutlook:
    """Forecast for one question of a study in a notebook.

    Attributes:
        question: key of the question by which bots are compared.
        untested: reasons for pairs without a test.
    """

    question: str
    forecast: StoppingForecast
    untested: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The line that the study's pages show, without cost, hours and plan."""
        if not self.forecast.n_pairs:
            return f"No two bots can be compared: {'; '.join(self.untested) or 'there is one bot'}."
        forecast = self.to_json()
        return f"{decided_sentence(forecast)} {next_sentences(forecast)}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as the API does."""
        return self.forecast.to_json()

    def summary(self) -> str:
        """Return the sentence, and the range of every undecided pair."""
        if not self.forecast.pairs:
            return self.sentence
        rows = [
            [a, b, f"{people.low:,}", "not within the simulated number" if people.high is None else f"{people.high:,}"]
            for a, b, people in self.forecast.pairs
        ]
        title = f"Undecided pairs by {self.question}: further people, 10th to 90th percentile"
        return f"{self.sentence}\n\n{text_table(title, ['bot', 'bot', 'from', 'to'], rows)}"

    def __repr__(self) -> str:
        return f"Outlook by {self.question}: {self.sentence}"


def stopping_outlook(ratings: Ratings, *, smallest: float | None = None) -> StoppingOutlook:
    """Forecast how many more participants decide the pairs of bots, as if the study were collecting.

    Args:
        ratings: by their leading question.
        smallest: smallest difference of interest, in points; None: the study's.

    Raises:
        ValueError: if there is no question to compare bots by.
    """
    ratings = replace(ratings, is_collecting=True)
    compared = compare(ratings, smallest=smallest, plans=False)
    untested = dict.fromkeys(str(pair.reason) for pair in compared.untested)
    return StoppingOutlook(compared.dimension.key, forecast_stopping(ratings, compared), tuple(untested))


def decided_sentence(forecast: Mapping[str, Any]) -> str:
    """Return the sentence on the pairs that are decided."""
    n_decided, n_pairs = forecast["n_decided"], forecast["n_pairs"]
    if n_decided == n_pairs:
        return "The pair is decided." if n_pairs == 1 else f"All {n_pairs} pairs are decided."
    return f"{n_decided} of {pluralise(n_pairs, 'pair')} {'is' if n_pairs == 1 else 'are'} decided."


def next_sentences(forecast: Mapping[str, Any], *, brackets: str = "", n_left: int | None = None) -> str:
    """Return the sentences on the people that further decisions take.

    Args:
        brackets: cost and hours of the next range, if known, with a leading space.
        n_left: people that the study still plans to recruit.
    """
    n_open = forecast["n_pairs"] - forecast["n_decided"]
    reason = None if forecast["reason"] is None else reason_read(forecast["reason"])
    if not n_open:
        return "More people will hardly change this, so you can close the study."
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
        sentences.append(f"The plan has {_people(n_left)} left.")
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
    return f"{_people(low).replace(' ', ' more ')} will not decide {which}; it may take {most}."


def _people(n: int) -> str:
    return f"{n:,} person" if n == 1 else f"{n:,} people"


def _number(n: int) -> str:
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)
