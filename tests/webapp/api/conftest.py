"""What all tests of the API need."""

from collections.abc import Iterator

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from webapp.studies.models import Study


@pytest.fixture(autouse=True)
def connection_kept() -> Iterator[None]:
    """Keep the test's connection through requests that come by WSGI, as Django's own test client does."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def study(shop: int, db: None) -> Study:
    """Return the study that the file's `shop` makes, as it is before any test."""
    return Study.objects.get(pk=shop)
