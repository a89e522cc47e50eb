"""Accounts of paid bots: caps hold whatever happens at once, and calls leave what they took."""

import threading
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection

from chatbots.endpoints.metering import CapReached, ReplyCost
from webapp.bots.models import Spending
from webapp.bots.services import Purse, spending_reserve, spending_settle


def purse(key: str = "b", cap: float | None = None, of: str = "bot") -> Purse:
    return Purse(of, key, cap, f"the cap of {key}")


def bound(cost: float | None) -> ReplyCost:
    return ReplyCost(100, 100, cost, True)


@pytest.mark.django_db
def test_a_bound_is_replaced_by_what_the_call_took() -> None:
    receipt = spending_reserve(purses=[purse(), purse("7", of="study")], bound=bound(0.5))
    assert {account.spent for account in Spending.objects.all()} == {0.5}
    spending_settle(reservation=receipt, cost=ReplyCost(12, 3, 0.0000021))
    receipt = spending_reserve(purses=[purse()], bound=bound(None))
    spending_settle(reservation=receipt, cost=ReplyCost(5, 4, None, True))
    bot, study = Spending.objects.order_by("of")
    assert (bot.spent_nano, bot.tokens_in, bot.tokens_out) == (2100, 17, 7)
    assert (bot.n_calls, bot.n_unpriced, bot.n_estimated) == (2, 1, 1)
    assert (study.spent_nano, study.n_calls) == (2100, 1)


@pytest.mark.django_db
def test_a_call_refused_on_one_account_is_set_aside_on_none() -> None:
    with pytest.raises(CapReached, match=r"the cap of 7, 0\.4, is reached.*may cost 0\.5"):
        spending_reserve(purses=[purse(cap=9), purse("7", cap=0.4, of="study")], bound=bound(0.5))
    assert sum(account.spent_nano for account in Spending.objects.all()) == 0
    with pytest.raises(CapReached, match="price_in and price_out are not set"):
        spending_reserve(purses=[purse(cap=9)], bound=bound(None))
    spending_reserve(purses=[purse(cap=0.5)], bound=bound(0.5))  # up to the cap itself


@pytest.mark.django_db(transaction=True)
def test_many_at_once_do_not_pass_a_cap() -> None:
    spending_reserve(purses=[purse()], bound=bound(0))  # the account is there already
    refused, held = [], []
    together = threading.Barrier(6)

    def ask() -> None:
        together.wait()
        for _ in range(3):
            _insist(lambda: held.append(spending_reserve(purses=[purse(cap=1)], bound=bound(0.1))))
        connection.close()

    def _insist(work: Callable[[], None]) -> None:
        while True:
            try:
                return work()
            except CapReached as error:
                return refused.append(error)
            except OperationalError:  # SQLite in memory does not wait for its turn
                continue

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (10, 8)
    assert Spending.objects.get().spent == 1.0
