"""The studies that every installation starts with."""

from __future__ import annotations

from webapp.bots.selectors import bot_available_ids
from webapp.studies.models import Study
from webapp.studies.services import study_create

_DEMO_BOTS = ["eliza", "retrieval", "parrot", "generic"]
_DEMO_TALKER = "smollm2"


def demo_study_ensure() -> Study:
    """Make the study `demo` of the bots that every installation has, and of the pretrained talker if it is here.

    A study that is there already stays as it is, whatever has been installed since.
    """
    study = Study.objects.filter(key="demo").first()
    return study or study_create(
        key="demo",
        name="Demo: bots to compare",
        title="Chat with a chatbot",
        bots=_DEMO_BOTS + bot_available_ids([_DEMO_TALKER]),
        state=Study.State.COLLECTING,
        min_exchanges=3,
        max_exchanges=15,
        organisation="whoever installed Confab here",
    )


DEMO_PAPER_KEY = "demo-paper"
_PAPER_BOTS = [f"{model}{ei}-demo" for model in ("hred", "vhred", "vhcr") for ei in ("", "-ei")]


def demo_paper_study_ensure() -> Study:
    """Make the study `demo-paper`: three architectures, each plain and with EI, as in the main paper.

    It is a draft while none of its bots is installed, and begins to collect with the first. If a researcher has
    changed its state since, that state stays.
    """
    study = Study.objects.filter(key=DEMO_PAPER_KEY).first() or study_create(
        key=DEMO_PAPER_KEY,
        name="Demo: the paper's models, plain and with EI",
        title="Chat with a chatbot",
        bots=_PAPER_BOTS,
        min_exchanges=3,
        max_exchanges=15,
        organisation="whoever installed Confab here",
    )
    if study.state == Study.State.DRAFT and bot_available_ids(study.bots):
        # With those that are here: an edit would be refused for the others.
        study.state = Study.State.COLLECTING
        study.save(update_fields=["state", "updated_at"])
    return study
