"""A Prolific study and people who came to its ends, and a fresh start for calls of the API."""

import io
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from tests.builders import calls_forget, fail_reply, make_conversation, make_rating, make_staff, make_study
from webapp.conversations.services import conversation_finish_failed, conversation_withdraw
from webapp.core.logs import LogLineFormatter, RedactTokens
from webapp.core.rights import Right
from webapp.pay.submissions import SubmissionKey
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.services import task_end

CODES = {
    "code_rated": "CDONE111",
    "code_bot_failed": "CFAIL222",
    "code_screened_out": "CSCRE333",
    "code_failed_check": "CCHEC444",
    "code_no_consent": "CNOCO555",
    "code_withdrawn": "CWITH666",
}
PROLIFIC_STUDY = "60f6acb180a7b59ac0621f9e"


@pytest.fixture
def api_afresh(settings: Any, tmp_path: Path) -> None:
    """Forget how often programs called, and keep data and bots in a folder of the test's own."""
    calls_forget()
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")


@pytest.fixture
def reader(db: None, client: Client) -> Client:
    """Return a browser of staff who may only read."""
    client.force_login(make_staff(Right.READ))
    return client


@pytest.fixture
def chief(db: None) -> Client:
    """Return a superuser's browser."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("chief", password="x"))
    return client


@pytest.fixture
def paid(db: Any) -> Study:
    """Return a study whose people come from Prolific."""
    return make_study("paid", platform="prolific", pay_each=1.6, **CODES)


@pytest.fixture
def visit(paid: Study) -> Callable[..., SubmissionKey]:
    """Make visits: `visit("rated", "a")` of a person called a, in as many seconds as are said."""

    def make(
        outcome: str, name: str, *, seconds: float = 480, platform: str = "prolific", **answers: Any
    ) -> SubmissionKey:
        ids = {
            "prolific": {"PROLIFIC_PID": f"pid-{name}", "STUDY_ID": PROLIFIC_STUDY, "SESSION_ID": f"ses-{name}"},
            "mturk": {"workerId": f"pid-{name}", "assignmentId": f"ses-{name}", "hitId": "HIT1"},
        }[platform]
        chat = make_conversation(
            paid,
            n_exchanges=3 if outcome == "rated" else 0,
            platform=platform,
            external_id=f"pid-{name}",
            recruitment=ids,
        )
        task = chat.slot.task
        if outcome == "rated":
            make_rating(chat, **answers)
        elif outcome == "bot_failed":
            fail_reply(chat)
            conversation_finish_failed(conversation=chat)
        elif outcome == "withdrawn":
            conversation_withdraw(conversation=chat)
        elif outcome in (Outcome.SCREENED_OUT, Outcome.FAILED_CHECK):
            task_end(task=task, outcome=outcome)
        elif outcome == "left":
            long_ago = timezone.now() - timedelta(days=2)
            Task.objects.filter(pk=task.pk).update(created_at=long_ago)
        ended = Task.objects.filter(pk=task.pk, ended_at__isnull=False)
        ended.update(created_at=timezone.now() - timedelta(seconds=seconds), ended_at=timezone.now())
        return SubmissionKey(chat.participant_id, f"ses-{name}")

    return make


@pytest.fixture
def json_lines() -> Iterator[Callable[[], list[str]]]:
    """Give what is logged meanwhile, as the production's handler writes it in JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogLineFormatter("json"))
    handler.addFilter(RedactTokens())
    root, lines = logging.getLogger(), logging.getLogger("webapp.core.middleware")
    level = lines.level
    root.addHandler(handler)
    lines.setLevel("INFO")
    yield lambda: stream.getvalue().splitlines()
    lines.setLevel(level)
    root.removeHandler(handler)
