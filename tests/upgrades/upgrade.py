"""Load what a release kept into an empty database, upgrade it amid work, finish that, and print what is there then.

    python -m tests.upgrades.upgrade tests/upgrades/NAME TABLES

writes the exported tables into the folder TABLES. A process of its own, for the database is not the
tests'.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(kept: Path, tables: Path) -> dict[str, Any]:
    """Upgrade, finish the work that was under way, and go on collecting.

    Returns:
        The facts and the schema after the upgrade, how the work ended, and what went on.
    """
    from django.core.management import call_command

    from tests.upgrades.database import describe_schema, load
    from tests.upgrades.facts import facts, tables_write
    from tests.upgrades.half_done import finish, interrupted

    names = interrupted(load(kept))
    call_command("migrate", verbosity=0)
    schema = describe_schema()
    work = finish(names)
    tables_write(tables)
    return {"facts": facts(), "work": work, "projects": _projects(), "goes_on": _goes_on(), "schema": schema}


def _projects() -> dict[str, Any]:
    """Return the projects of all rows that have one, and the rights of each user outside the usual project."""
    from django.apps import apps
    from django.contrib.auth import get_user_model

    from webapp.core.models import OfProject, Project
    from webapp.core.rights import Right, may_in, permissions_by_project

    users = get_user_model().objects.order_by("username")
    models = [model for model in apps.get_models() if issubclass(model, OfProject)]
    Project.objects.create(key="new", name="New")
    return {
        "of_rows": sorted({key for model in models for key in model.everywhere.values_list("project", flat=True)}),
        "with_roles": sorted({key for user in users for key in permissions_by_project(user)}),
        "elsewhere": [
            user.get_username() for user in users if not user.is_superuser and may_in(user, "new", Right.READ)
        ],
        "n_users": len(users),
    }


def _goes_on() -> dict[str, Any]:
    """Go on collecting: whoever had begun a rating sends it; newcomers take the places left, and no more."""
    from tests.builders import make_conversation, make_rating
    from webapp.conversations.models import Conversation
    from webapp.core.errors import Refused
    from webapp.studies.models import Study
    from webapp.studies.versions import study_edit

    study = Study.objects.get(key="collects")
    draft = Conversation.objects.exclude(rating_draft={}).get()
    code = make_rating(draft).task.completion_code
    study = study_edit(study=study, n_conversations_wanted=11)
    newcomers = [make_conversation(study, entry_nonce=f"new{n}") for n in range(2)]
    try:
        make_conversation(study, entry_nonce="one too many")
    except Refused as refused:
        last = refused.code
    return {"code": code, "bots": sorted(chat.bot.bot_id for chat in newcomers), "last": last}


if __name__ == "__main__":
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings.test"
    django.setup()
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
