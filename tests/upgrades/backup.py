"""Backups of earlier versions, with the facts that hold after a restore: chats, codes, pay and links.

    python -m tests.upgrades.backup make tests/upgrades/backups/NAME.zip

is run with the code of a version and writes NAME.json next to the archive. `read NAME.json` prints the same facts of
the database that the settings name, then goes on with the chats.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def make(archive: Path) -> None:
    """Back up a study with participants in every state, and write its facts."""
    from django.core.management import call_command

    from tests.upgrades.make import _people, _researchers

    call_command("migrate", verbosity=0)
    _people()
    _researchers()
    archive.unlink(missing_ok=True)
    call_command("backup", output=archive)
    archive.with_suffix(".json").write_text(json.dumps(facts() | {"links": links()}, indent=1) + "\n")


def facts() -> dict[str, Any]:
    """Return chats, pages and rights, what Pay lists, completion codes and the texts of all messages."""
    from tests.upgrades.facts import facts as study_facts
    from webapp.conversations.models import Turn
    from webapp.pay.submissions import INSIDE, LEFT, submissions_of
    from webapp.studies.models import Study, Task

    visits = submissions_of(Study.objects.get(key="collects")).all
    turns = Turn.objects.order_by("conversation_id", "index")
    return study_facts() | {
        "pay": sorted(
            [
                f"{visit.key.participant.hex}~{visit.key.submission}",
                visit.external_id,
                LEFT if visit.outcome == INSIDE else visit.outcome,  # a held place ends by the clock
                visit.fault,
                visit.shown_code,
            ]
            for visit in visits
        ),
        "codes": [
            [str(task.public_id), task.state, task.completion_code] for task in Task.objects.order_by("public_id")
        ],
        "turns": [[str(turn.conversation_id), turn.index, turn.speaker, turn.text] for turn in turns],
    }


def links() -> dict[str, str]:
    """Return the address of each open chat, signed as its participant was given it."""
    from webapp.conversations.models import Conversation
    from webapp.studies.selectors import participant_token

    chats = Conversation.objects.filter(state=Conversation.State.OPEN, is_synthetic=False).order_by("pk")
    return {str(chat.pk): f"/chat/{chat.pk}/?t={participant_token(chat.participant)}" for chat in chats}


def read(written: Path) -> dict[str, Any]:
    """Return the database's facts, the status of each link in the file, and what went on."""
    from django.test import Client

    before = json.loads(written.read_text())
    result = facts()
    opened = {pk: Client().get(link, follow=True).status_code for pk, link in before["links"].items()}
    return {"facts": result, "opened": opened, "goes_on": _goes_on()}


def _goes_on() -> dict[str, Any]:
    """Answer the message that waits, send the rating that was begun, and pay its participant's visit."""
    from tests.builders import answer, exchange, make_rating
    from webapp.conversations.models import Conversation
    from webapp.pay.submissions import submissions_of
    from webapp.studies.models import Study

    due = Conversation.objects.get(turns__text="Are you there?")
    answer(due, "I am.")
    exchange(due, "Good.", "So it is.")
    draft = Conversation.objects.exclude(rating_draft={}).get()
    code = make_rating(draft).task.completion_code
    visits = submissions_of(Study.objects.get(key="collects")).all
    return {
        "texts": list(due.turns.order_by("index").values_list("text", flat=True)),
        "code": code,
        "draft": [[visit.outcome, visit.shown_code] for visit in visits if visit.external_id == "draft"],
    }


if __name__ == "__main__":
    import django

    if sys.argv[1] == "make":
        os.environ |= {"CONFAB_TEST_DIR": tempfile.mkdtemp(), "DATABASE_URL": "", "REDIS_URL": ""}
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings.test"
        django.setup()
        make(Path(sys.argv[2]))
    else:
        django.setup()
        print(json.dumps(read(Path(sys.argv[2]))))
