"""Fixtures of the bots' tests."""

from collections.abc import Iterator

import pytest

from chatbots.endpoints.metering import MemoryMeter, meter_get, meter_set


@pytest.fixture
def meter() -> Iterator[MemoryMeter]:
    """Keep accounts in memory, in place of the database's."""
    before, mine = meter_get(), MemoryMeter()
    meter_set(mine)
    yield mine
    meter_set(before)
