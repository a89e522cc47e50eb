"""Every study, bot and secret belongs to a project: the usual one, which each installation has."""

import pytest
from django.db.models import ProtectedError

from tests.builders import make_study
from webapp.bots.models import DeclaredBot, Secret
from webapp.core.models import Project
from webapp.core.project_scope import USUAL_PROJECT

pytestmark = pytest.mark.django_db


def test_what_is_made_belongs_to_the_usual_project_which_stays():
    made = [
        make_study(),
        Secret.objects.create(name="one", address="https://bots.example", sealed=""),
        DeclaredBot.objects.create(bot_id="one", kind="endpoint", title="One"),
    ]
    assert [one.project.key for one in made] == [USUAL_PROJECT] * 3
    with pytest.raises(ProtectedError):
        Project.objects.get(key=USUAL_PROJECT).delete()
