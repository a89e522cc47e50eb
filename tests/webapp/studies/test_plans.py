"""What was planned is frozen when a study opens, and later changes are deviations."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.urls import reverse

from tests.builders import make_conversation, make_participant, make_rating, make_study, signed_in
from tests.webapp.dashboard.analysis.test_one_result import text_of
from webapp.core.rights import Right
from webapp.insights.narrative.phrases import Section
from webapp.insights.narrative.plan import plan_section
from webapp.results.study_data import study_data, study_frame
from webapp.studies.models import Study, StudyPlan
from webapp.studies.plans import plan_deviations, plan_digest
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.package.contents import package_pieces

pytestmark = pytest.mark.django_db
HYPOTHESES = "Parrot is rated higher than Eliza.\n\nVotes agree with ratings."


@pytest.fixture
def draft() -> Study:
    return make_study(
        state=Study.State.DRAFT,
        hypotheses=HYPOTHESES,
        exclusions="Participants who know the bots.",
        smallest_difference=0.5,
        closes_on="2030-01-31",
    )


def opened(study: Study) -> Study:
    return study_edit(study=study, state=Study.State.COLLECTING)


def test_a_draft_has_no_plan_and_opening_stores_it(draft: Study) -> None:
    assert not draft.plans.exists()
    [plan] = opened(draft).plans.all()
    assert plan.document["hypotheses"] == ["Parrot is rated higher than Eliza.", "Votes agree with ratings."]
    assert plan.document["exclusions"] == ["Participants who know the bots."]
    assert (plan.document["smallest_difference"], plan.n_participants) == (0.5, 0)
    assert plan.document["closing"] == {"at_planned_number": False, "budget": None, "last_day": "2030-01-31"}
    assert plan.digest == plan_digest(plan.document)


def test_only_changes_of_the_plan_are_deviations(draft: Study) -> None:
    study = opened(draft)
    study = study_edit(study=study, minutes=7)
    study = study_edit(study=study, state=Study.State.PAUSED)
    assert study.plans.count() == 1
    make_participant(study)
    study = study_edit(study=study, hypotheses="Eliza is rated higher.", smallest_difference=0.2)
    first, second = study.plans.all()
    assert (first.n_participants, second.n_participants) == (0, 1)
    changes = plan_deviations([first, second])
    assert [change.part for change in changes] == ["hypotheses", "smallest_difference"]
    assert (changes[1].before, changes[1].after) == ("0.5", "0.2")


def test_a_number_is_stored_once(draft: Study) -> None:
    plan = opened(draft).plans.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        StudyPlan.objects.create(study=draft, number=1, document={}, digest="", n_participants=0)
    assert draft.plans.get() == plan


def rated_section(study: Study) -> Section:
    """Rate two chats and return the report's section."""
    for quality in (3, 5):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality, fluency=4)
    data = study_data(Study.objects.get(pk=study.pk))
    assert data is not None
    return plan_section(study_frame(data.study, data.facts))


def test_the_report_shows_planned_next_to_done_and_each_change(draft: Study) -> None:
    study = study_edit(study=opened(draft), smallest_difference=0.2)
    section = rated_section(study)
    assert section.lead[0] == "The plan was changed after the study had opened: margin."
    assert "before the first participant" in section.lead[1]
    assert study.plans.first().digest in section.lead[1]
    planned = {row[0].text: (row[1].text, row[2].text) for row in section.tables[0].table.rows}
    assert planned["Margin: smallest difference of interest"] == ("0.5", "0.2")
    assert planned["Closing rules"] == ("on 2030-01-31", "not closed: collecting")
    assert planned["Completed tasks wanted"] == ("no limit", "2 ratings of 2 conversations")
    assert planned["Hypotheses"][0] == "Parrot is rated higher than Eliza.; Votes agree with ratings."
    [change] = section.tables[1].table.rows
    assert [cell.text for cell in change[:3]] == ["Margin: smallest difference of interest", "0.5", "0.2"]
    sent = signed_in(Right.READ).get(f"{reverse('dashboard:study_datasheet', args=[study.key])}?format=plan")
    assert json.loads(sent.content)["smallest_difference"] == 0.5
    assert hashlib.sha256(sent.content).hexdigest() == study.plans.first().digest


def test_the_report_has_the_section(draft: Study, tmp_path: Path) -> None:
    rated_section(opened(draft))
    path = tmp_path / "r.html"
    call_command("report", "--study", draft.key, "--output", str(path), "--sections=plan", stdout=io.StringIO())
    assert "The plan has not changed since the study opened." in text_of(path.read_text())


def test_a_changed_row_does_not_have_its_digest(draft: Study) -> None:
    study = opened(draft)
    plan = study.plans.get()
    StudyPlan.objects.filter(pk=plan.pk).update(document={**plan.document, "hypotheses": ["Another one."]})
    section = rated_section(study)
    assert "The stored plan 1 does not have its digest" in section.caution


def test_the_package_has_the_plan_with_its_digest_and_later_ones(draft: Study) -> None:
    study = study_edit(study=opened(draft), smallest_difference=0.2)
    zipped = zipfile.ZipFile(io.BytesIO(b"".join(package_pieces(study, ExportOptions()))))
    assert hashlib.sha256(zipped.read("plan.json")).hexdigest() == study.plans.first().digest
    assert json.loads(zipped.read("plan-2.json"))["smallest_difference"] == 0.2


def test_a_changed_plan_in_a_package_is_noticed(draft: Study, tmp_path: Path) -> None:
    """Its bytes no longer have the digest that the report prints, and `verify` names the file."""
    study = opened(draft)
    digest = study.plans.get().digest
    with zipfile.ZipFile(io.BytesIO(b"".join(package_pieces(study, ExportOptions())))) as package:
        files = {name: package.read(name) for name in package.namelist()}
    [name] = [name for name in files if name.endswith("plan.json")]
    assert hashlib.sha256(files[name]).hexdigest() == digest
    files[name] = files[name].replace(b"Parrot is rated higher", b"Eliza is rated higher")
    assert hashlib.sha256(files[name]).hexdigest() != digest
    path = tmp_path / "changed.zip"
    with zipfile.ZipFile(path, "w") as package:
        for file, content in files.items():
            package.writestr(file, content)
    errors = io.StringIO()
    with pytest.raises(CommandError, match="has changed"):
        call_command("verify", str(path), stderr=errors)
    assert f"{name} has changed" in errors.getvalue()


def test_a_study_that_was_never_opened_has_no_plan_to_download(draft: Study) -> None:
    assert (
        signed_in(Right.READ).get(f"{reverse('dashboard:study_datasheet', args=[draft.key])}?format=plan").status_code
        == 404
    )


def test_the_first_change_of_a_study_opened_without_a_plan_keeps_the_plan_before_it(draft: Study) -> None:
    study = opened(draft)
    study.plans.all().delete()
    study = study_edit(study=Study.objects.get(pk=study.pk), hypotheses="Eliza wins.")
    [change] = plan_deviations(list(study.plans.all()))
    assert (change.before, change.after) == (
        "Parrot is rated higher than Eliza.; Votes agree with ratings.",
        "Eliza wins.",
    )
