"""OpenAPI is true: whatever values schemathesis makes of it are answered as it says, and never by a fault."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, settings
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.builders import calls_forget, make_conversation, make_rating, make_staff, make_study
from webapp.api.urls import api
from webapp.core.authentication import token_make
from webapp.core.rights import Right

pytest_plugins = ["schemathesis.pytest.plugin"]
pytestmark = pytest.mark.django_db

# Made when the test runs: to collect them, every worker of pytest would work out the calls of all routes.
SCHEMA = schemathesis.pytest.from_fixture("described")
TAKEN_FIRST, TAKEN_OF = 8, 20
"""Of the boundary values of a call, two thousand where a study's file has that many fields, so many are sent at
first, then one in so many."""
LONGEST_S = 120
"""Of CPU, for all calls together: a description that grows beyond it has to be sampled more thinly."""


SERVER = WSGIHandler()


def whole_response(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answer a request and close the response, as servers do: its project would stay the active one otherwise."""
    response = SERVER(environ, start_response)
    try:
        return [b"".join(response)]
    finally:
        response.close()


@pytest.fixture
def described(request: pytest.FixtureRequest) -> Any:
    """Return the API's description; of the boundary values of every route a part is sent."""
    schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
    schema.app = whole_response
    request.node._nodeid = request.node.nodeid  # schemathesis 4.32 reads it, and pytest 9.2 has it no more
    counts: Counter[str] = Counter()
    begun = time.process_time()

    @schema.hook
    def filter_case(context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
        if time.process_time() - begun > LONGEST_S:
            pytest.fail(f"not all calls were tried within {LONGEST_S} seconds of CPU")
        if case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
            return True
        n = counts[case.operation.label]
        counts[case.operation.label] += 1
        return n < TAKEN_FIRST or n % TAKEN_OF == 0

    return schema


@pytest.fixture
def token(settings: Any, tmp_path: Path) -> str:
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    settings.CONFAB_API_RATE = "100000/s"
    calls_forget()
    make_rating(make_conversation(make_study("shop"), n_exchanges=3))
    return token_make(user=make_staff(*Right), name="ci", rights=[*Right])[1]


@SCHEMA.parametrize()
@settings(
    max_examples=2,
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
