"""OpenAPI is true: whatever values schemathesis makes of it are answered as it says, and never by a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.cache import caches
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.builders import make_conversation, make_rating, make_staff, make_study
from webapp.api.urls import api
from webapp.core.rights import Right
from webapp.core.tokens import token_make

pytestmark = pytest.mark.django_db

SCHEMA = schemathesis.openapi.from_dict(api.get_openapi_schema())
SCHEMA.app = WSGIHandler()


@pytest.fixture
def token(settings: Any, tmp_path: Path) -> str:
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    settings.CONFAB_API_RATE = "100000/s"
    caches["shared"].clear()
    make_rating(make_conversation(make_study("shop"), n_exchanges=3))
    return token_make(user=make_staff(*Right), name="ci", rights=[*Right])[1]


@SCHEMA.parametrize()
@settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_call_answers_as_it_is_described(case: schemathesis.Case, token: str) -> None:
    case.call_and_validate(
        headers={"Authorization": f"Bearer {token}"},
        # No schema says which bots and metrics there are, and which bots a study's file may name.
        excluded_checks=[positive_data_acceptance],
    )
