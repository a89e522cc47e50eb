"""Every protocol's example: it imports cleanly, opens where it has what it gives, and exports as the same bytes."""

from pathlib import Path

import pytest
from django.core.management import call_command

from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.rubrics import post_task_questions
from webapp.studies.study_file import study_example, study_file_json, study_file_read, study_file_text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", protocols.names())
@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_it_comes_in_and_goes_out_the_same(name: str, ending: str, tmp_path: Path) -> None:
    first, out = tmp_path / f"first{ending}", tmp_path / f"out{ending}"
    call_command("study_example", name, "--output", str(first))
    call_command("import_study", str(first))
    study = Study.objects.get(key=f"{name}-example")
    assert (study.protocol, study.state, study.version.number) == (name, "draft", 1)
    call_command("export_study", "--study", study.key, "--output", str(out))
    assert out.read_bytes() == first.read_bytes()
    call_command("import_study", str(out))
    again = Study.objects.get(pk=study.pk)
    assert again.version_id == study.version_id
    assert again.values == study.values


@pytest.mark.parametrize("name", protocols.names())
def test_it_opens_and_asks_questions_of_its_own(name: str, tmp_path: Path) -> None:
    protocol = protocols.get(name)
    file = study_example(name)
    assert study_file_read(study_file_text(file)) == study_file_read(study_file_json(file)) == file
    path = tmp_path / "s.yaml"
    path.write_text(study_file_text(file), encoding="utf-8")
    if protocol.gives == "conversations":  # of people who talked in this study, whom no file brings
        return
    call_command("import_study", str(path), "--open")
    study = Study.objects.get(key=f"{name}-example")
    assert study.state == "collecting"
    assert post_task_questions(study.version)
