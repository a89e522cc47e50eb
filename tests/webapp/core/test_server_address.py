"""Address by which a rehearsal's worker reaches the server: a setting's, never a port that a request names."""

from typing import Any

import pytest

from tests.builders import make_study
from tests.webapp.api.programs import Program
from webapp.core.rights import Right
from webapp.jobs.models import Job


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("settings_urls", "host", "url"),
    [
        ({}, "testserver:8745", "http://testserver"),
        ({}, "testserver:80", "http://testserver:80"),
        ({}, "testserver", "http://testserver"),
        ({"CONFAB_PUBLIC_URL": "https://chat.example"}, "testserver:8745", "https://chat.example"),
        ({"CONFAB_REHEARSAL_URL": "http://web:8000"}, "testserver:8745", "http://web:8000"),
    ],
)
def test_a_request_cannot_choose_the_port(settings: Any, settings_urls: dict[str, str], host: str, url: str) -> None:
    for name, value in settings_urls.items():
        setattr(settings, name, value)
    study = make_study()
    program = Program(Right.READ, Right.RUN)
    answer = program.client.post(
        f"/api/v1/studies/{study.key}/rehearsals",
        {"people": 1},
        content_type="application/json",
        headers={"host": host},
    )
    assert answer.status_code == 202, answer.content
    assert Job.objects.get(kind="rehearsal").payload["url"] == url
