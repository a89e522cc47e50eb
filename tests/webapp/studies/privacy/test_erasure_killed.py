"""An erasure and a withdrawal that are killed right after their commit: the next look at retention finishes them."""

from collections.abc import Iterator

import pytest

from tests.conftest import ConfabServer, start_confab

KILLED = """
import os, signal
from datetime import timedelta
from django.utils import timezone
from webapp.studies import privacy
from webapp.studies.privacy import erasure
from webapp.studies.models import Participant, Study, Task
from webapp.studies.services import consent_record, participant_enter, task_end
from webapp.studies.services import task_open
from webapp.jobs.models import Job
from webapp.transfer.job_files import export_path
study = Study.objects.get(key={how!r})
person = consent_record(participant=participant_enter(study=study))
task = Task.objects.create(participant=person, version=study.version)
job = Job.objects.create(kind="export", study=study, payload={{"what": "ratings", "format": "csv"}}, state="done")
export_path(job).write_text("secret")
erasure._follow.insert(0, lambda _studies: os.kill(os.getpid(), signal.SIGKILL))
if {how!r} == "erased":
    privacy.participants_erase(participants=Participant.objects.filter(pk=person.pk), notes=True)
else:
    privacy.participant_withdraw(participant=person)
"""
STATE = """
from webapp.core.models import CleanUp
from webapp.transfer.job_files import export_folder
print(CleanUp.objects.count(), sum(path.name.startswith("export-") for path in export_folder().iterdir()))
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, vector_cache: object) -> Iterator[ConfabServer]:
    folder = tmp_path_factory.mktemp("erased")
    yield from start_confab(folder, vector_cache, with_demo=False, with_processes=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["erased", "withdrawn"])
def test_the_next_look_at_retention_finishes_what_was_killed(installation: ConfabServer, how: str) -> None:
    installation.add_study(how, ["eliza"], withdrawal_days=30)
    killed = installation.manage("shell", "--no-imports", "-c", KILLED.format(how=how), check=False)
    assert killed.returncode != 0
    assert "Traceback" not in killed.stderr
    assert installation.shell(STATE).split() == ["1", "1"]
    installation.manage("erase", "--due")
    assert installation.shell(STATE).split() == ["0", "0"]
