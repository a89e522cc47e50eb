"""Cost of a study by its plan: pay per hour, and total."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.studies.models import Study

PROLIFIC_LEAST = {"GBP": 6.0, "USD": 8.0}
"""The least that Prolific lets a study pay an hour."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Amounts in the study's currency.

    Attributes:
        an_hour: None while pay or minutes are missing.
        people, fee: for everybody who is wanted; None while pay or their number is missing.
        n: how many are wanted.
    """

    currency: str
    an_hour: float | None
    people: float | None
    fee: float | None
    n: int

    @property
    def in_all(self) -> float | None:
        """Pay and fee together."""
        return None if self.people is None or self.fee is None else self.people + self.fee


def cost_of(study: Study) -> Cost:
    """Return the study's cost if each wanted task is done once."""
    recruitment, minutes = study.values.recruitment, study.values.texts.minutes
    each, n = recruitment.pay_each, n_wanted(study)
    people = each * n if each is not None and n else None
    return Cost(
        currency=recruitment.currency,
        an_hour=each / minutes * 60 if each is not None and minutes else None,
        people=people,
        fee=people * recruitment.fee_share if people is not None else None,
        n=n,
    )


def n_wanted(study: Study) -> int:
    """Return the total number of tasks wanted; 0 without a limit."""
    values = study.values
    wanted = values.quotas.n_conversations_wanted
    by_bot = [values.assignment.quota_of(bot_id) for bot_id in study.bots]
    limits = [one for one in by_bot if one is not None]
    all_bots = sum(limits) if limits and len(limits) == len(by_bot) else 0
    return min(wanted, all_bots) if wanted and all_bots else wanted or all_bots
