"""A study with rated conversations, and people who may and may not look at it."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client

from tests.builders import make_conversation, make_rating, make_study, signed_in
from webapp.conversations.models import Turn
from webapp.core.rights import Right
from webapp.studies.models import Study


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    """Empty the cache: summaries of another test's study must not answer for this one's."""
    cache.clear()


@pytest.fixture
def staff(db: Any) -> Client:
    """Return a researcher's browser, with all rights."""
    return signed_in(*Right)


@pytest.fixture
def stranger(db: Any) -> Client:
    """Return the browser of somebody who is signed in, but no researcher."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("s", password="x"))
    return client


def rate_some(study: Study, n: int, offset: int = 0) -> None:
    """Make n conversations, each with votes and a rating by a person of its own."""
    for i in range(n):
        conversation = make_conversation(study, n_exchanges=3)
        Turn.objects.filter(conversation=conversation, index=1).update(vote=1 if i % 2 else -1)
        make_rating(conversation, quality=1 + (i + offset) % 7, fluency=3 + i % 3)


@pytest.fixture(scope="module")
def rated_of_file(rows_of_file: None) -> int:
    """Make a study of two bots with eight rated conversations once for the file; return its primary key."""
    study = make_study("rated")
    rate_some(study, 8)
    return study.pk


@pytest.fixture
def rated(rated_of_file: int, db: Any) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=rated_of_file)
