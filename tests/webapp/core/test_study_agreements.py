"""Relations of studies across projects: only with an agreement of both, which reveals nothing before it is accepted."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.builders import BY_PROLIFIC, make_participant, make_staff, make_study
from tests.webapp.core.test_project_members import browser, member
from webapp.core.models import Project
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.studies.assignment.capacity import bots_met, study_group
from webapp.studies.models import Study, StudyAgreement
from webapp.studies.project_moves import study_accept, study_offer
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
CHANGE = "dashboard:project_change"
QUERY = "?PROLIFIC_PID={}&STUDY_ID=x&SESSION_ID=y"


@pytest.fixture
def labs() -> dict[str, Any]:
    """Return the owners of two projects, and the study of the second one."""
    admin: Any = make_staff(*Right, username="admin")
    for key in ("asking", "other"):
        project_create(actor=admin, key=key, name=f"Lab {key}")
    with in_project("other"):
        study = make_study("theirs", name="Quetzalcoatl", study_group="spring")
        make_participant(study, platform="prolific", external_id="old")
    asker, owner = member("Owner", "asking", "asker"), member("Owner", "other", "answerer")
    return {"asker": browser(asker), "owner": browser(owner), "study": study}


def change(client: Client, **data: Any) -> str:
    return client.post(reverse(CHANGE), data, follow=True).content.decode()


def agreement() -> StudyAgreement:
    return StudyAgreement.everywhere.get(study_key="theirs")


def test_an_unknown_key_a_foreign_one_and_a_declined_one_look_the_same(labs: dict[str, Any]) -> None:
    pages = [change(labs["asker"], action="ask", study=key) for key in ("theirs", "nowhere")]
    shown = [page[page.index("Studies of other projects") :] for page in pages]
    assert "Quetzalcoatl" not in pages[0]
    assert "Lab other" not in pages[0]
    assert "The request was stored. If another project has this study" in pages[1]
    assert "<strong>theirs</strong>\n              not accepted" in shown[1]
    assert "<strong>nowhere</strong>\n              not accepted" in shown[1]
    change(labs["owner"], action="disagree", agreement=agreement().pk)
    page = labs["asker"].get(reverse("dashboard:projects")).content.decode()
    assert "<strong>theirs</strong>\n              not accepted" in page
    with in_project("asking"):
        for key in ("theirs", "nowhere"):
            with pytest.raises(ValidationError, match=f"There is no study “{key}”"):
                make_study(f"after-{key}", only_after_studies=key, **BY_PROLIFIC)


def test_with_an_agreement_studies_admit_by_the_others_participants_until_it_is_withdrawn(labs: dict[str, Any]) -> None:
    change(labs["asker"], action="ask", study="theirs")
    page = labs["owner"].get(reverse("dashboard:projects")).content.decode()
    assert "The project asking" in page
    change(labs["owner"], action="agree", agreement=agreement().pk)
    assert "accepted" in labs["asker"].get(reverse("dashboard:projects")).content.decode()
    with in_project("asking"):
        make_study("ours", only_after_studies="theirs", **BY_PROLIFIC)
        make_study("not-ours", never_after_studies="theirs", **BY_PROLIFIC)

    def admits(study: str, person: str) -> bool:
        return "_entry" in Client().get(f"/s/{study}/{QUERY.format(person)}").content.decode()

    assert (admits("ours", "old"), admits("ours", "new")) == (True, False)
    assert (admits("not-ours", "old"), admits("not-ours", "new")) == (False, True)
    change(labs["owner"], action="disagree", agreement=agreement().pk)
    assert (admits("ours", "old"), admits("not-ours", "old")) == (False, True)
    with in_project("asking"), pytest.raises(ValidationError, match="There is no study “theirs”"):
        study_edit(study=Study.objects.get(key="ours"), name="Renamed")


def test_a_group_name_joins_studies_of_two_projects_only_with_an_agreement(labs: dict[str, Any]) -> None:
    with in_project("asking"):
        ours = make_study("ours", study_group="spring")
        sibling = make_study("sibling", study_group="spring")
    theirs = labs["study"]
    assert study_group(ours) == [ours.pk, sibling.pk]
    assert study_group(theirs) == [theirs.pk]
    change(labs["asker"], action="ask", study="theirs")
    assert study_group(theirs) == [theirs.pk]
    change(labs["owner"], action="agree", agreement=agreement().pk)
    assert set(study_group(ours)) == set(study_group(theirs)) == {ours.pk, sibling.pk, theirs.pk}
    person = make_participant(ours, platform="prolific", external_id="old")
    assert bots_met(person) == set()
    change(labs["asker"], action="drop", agreement=agreement().pk)
    assert study_group(theirs) == [theirs.pk]


def test_only_owners_make_agreements_and_only_about_their_own_studies(labs: dict[str, Any]) -> None:
    researcher = browser(member("Researcher", "asking", "researcher"))
    assert "Only owners of the project" in change(researcher, action="ask", study="theirs")
    assert not StudyAgreement.everywhere.exists()
    change(labs["asker"], action="ask", study="theirs")
    for client in (labs["asker"], browser(make_staff(*Right, username="boss"))):  # type: ignore[arg-type]
        assert "no longer exists" in change(client, action="agree", agreement=agreement().pk)
    assert agreement().state == "waiting"
    change(labs["owner"], action="drop", agreement=agreement().pk)
    assert agreement().state == "waiting"
    assert "is no key of a study" in change(labs["asker"], action="ask", study="a b")


def test_a_moved_study_keeps_its_relations(labs: dict[str, Any]) -> None:
    with in_project("other"):
        make_study("follow-up", only_after_studies="theirs", **BY_PROLIFIC)
        moving = make_study("moving", never_after_studies="theirs", **BY_PROLIFIC)
        study_offer(study=labs["study"], key="asking")
    study_accept(study=Study.everywhere.get(key="theirs"))
    page = Client().get(f"/s/follow-up/{QUERY.format('old')}").content.decode()
    assert "_entry" in page
    study_offer(study=moving, key="asking")
    study_accept(study=moving)
    assert "_entry" not in Client().get(f"/s/moving/{QUERY.format('old')}").content.decode()
    assert [(row.project_id, row.study_key, row.state) for row in StudyAgreement.everywhere.all()] == [
        ("other", "theirs", "accepted")
    ]
    assert Project.objects.count() == 3
