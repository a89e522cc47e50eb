"""The figures at the head of a study: who counts as having taken part."""

from __future__ import annotations

import pytest

from tests.builders import make_conversation, make_rating, make_study
from webapp.conversations.services import conversation_withdraw
from webapp.dashboard.selectors import study_cards
from webapp.studies.recruitment.links import task_decline
from webapp.studies.services import participant_enter

pytestmark = pytest.mark.django_db


def test_who_did_not_agree_is_nobody_who_left() -> None:
    study = make_study()
    make_rating(make_conversation(study, n_exchanges=3))
    conversation_withdraw(conversation=make_conversation(study))
    for nonce in ("a", "b"):
        person = participant_enter(study=study, entry_nonce=nonce)
        task_decline(participant=person, version=study.version)
    again = make_conversation(study, n_exchanges=3, entry_nonce="b")  # thought again, and agreed
    make_rating(again)
    cards = study_cards(study, include_synthetic=False)
    assert (cards.n_people, cards.n_completed) == (3, 2)
    assert cards.left_early == pytest.approx(1 / 3)
