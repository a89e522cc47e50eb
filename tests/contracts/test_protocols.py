"""Every registered study protocol: identity, choice of bots, and a scripted participant who plays it."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from tests.builders import make_conversation, make_participant, make_rating, make_study
from webapp.core.errors import Refused
from webapp.studies.protocols.base import BotLoad, StudyProtocol, protocols
from webapp.studies.services import assignment_open


@pytest.fixture(params=protocols.names())
def protocol(request: pytest.FixtureRequest) -> StudyProtocol:
    return protocols.get(request.param)


def test_it_says_who_it_is(protocol: StudyProtocol) -> None:
    assert protocol.title
    assert protocol.description
    assert protocol.identity.name == protocol.name
    json.dumps(protocol.identity.as_dict())


def test_it_chooses_among_what_it_is_offered_and_by_the_seed(protocol: StudyProtocol) -> None:
    loads = [BotLoad("a", 3, 1), BotLoad("b", 0, 0), BotLoad("c", 0, 2)]
    for seed in range(50):
        chosen = protocol.choose(loads, random.Random(seed))
        assert chosen in {"a", "b", "c"}
        assert chosen == protocol.choose(loads, random.Random(seed))
    assert protocol.choose(loads[:1], random.Random(0)) == "a"


@pytest.mark.django_db
def test_a_person_plays_it_to_the_end(protocol: StudyProtocol) -> None:
    study = make_study(bots=["eliza", "parrot", "generic"], protocol=protocol.name)
    met: Counter[str] = Counter()
    participant = make_participant(study, platform="prolific", external_id="p")
    for _ in study.bots:
        conversation = make_conversation(study, n_exchanges=3, platform="prolific", external_id="p")
        assert conversation.participant == participant
        met[conversation.bot.bot_id] += 1
        assert make_rating(conversation).assignment.completion_code
    assert met == dict.fromkeys(study.bots, 1)
    with pytest.raises(Refused, match="every chatbot"):
        assignment_open(participant=participant)
