"""Prolific, played by a server of our own."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from tests.fake_prolific import TOKEN, FakeProlific, fake_prolific
from tests.webapp.conftest import PROLIFIC_STUDY
from webapp.pay import prolific


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


@pytest.fixture
def platform(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProlific]:
    """Serve Prolific, with a token that it accepts and no pauses between tries."""
    monkeypatch.setattr(prolific.time, "sleep", lambda _seconds: None)
    with fake_prolific(PROLIFIC_STUDY) as fake:
        settings.CONFAB_PROLIFIC_URL = fake.url
        settings.CONFAB_PROLIFIC_TOKEN = TOKEN
        yield fake
