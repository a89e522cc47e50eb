"""Every registered assignment rule: identity, choice by the seed, and a person who meets every bot by it."""

import json
import random
from collections import Counter

import pytest

from tests.builders import make_conversation, make_participant, make_rating, make_study
from webapp.core.errors import Refused
from webapp.studies.assignment.rules.base import AssignmentRule, rules
from webapp.studies.services import task_open


@pytest.fixture(params=rules.names())
def rule(request: pytest.FixtureRequest) -> AssignmentRule:
    return rules.get(request.param)


def test_it_says_who_it_is(rule: AssignmentRule) -> None:
    assert rule.title
    assert rule.description
    assert rule.identity.name == rule.name
    json.dumps(rule.identity.as_dict())


def test_it_chooses_among_what_it_is_offered_and_by_the_seed(rule: AssignmentRule) -> None:
    loads = [0, 2, 2, 4]
    for seed in range(50):
        chosen = rule.choose(loads, random.Random(seed))
        assert 0 <= chosen < len(loads)
        assert chosen == rule.choose(loads, random.Random(seed))
    assert rule.choose(loads[:1], random.Random(0)) == 0


def test_needs_that_are_known_change_nothing_of_that(rule: AssignmentRule) -> None:
    loads, needs = [0, 2, 2, 4], [0.0, 3.0, 100.0, 0.0]
    for seed in range(50):
        chosen = rule.choose(loads, random.Random(seed), needs)
        assert 0 <= chosen < len(loads)
        assert chosen == rule.choose(loads, random.Random(seed), needs)
        if not rule.reads_needs:
            assert chosen == rule.choose(loads, random.Random(seed))


@pytest.mark.django_db
def test_a_person_meets_every_bot_once(rule: AssignmentRule) -> None:
    study = make_study(bots=["eliza", "parrot", "generic"], rule=rule.name)
    met: Counter[str] = Counter()
    participant = make_participant(study, platform="prolific", external_id="p")
    for _ in study.bots:
        conversation = make_conversation(study, n_exchanges=3, platform="prolific", external_id="p")
        assert conversation.participant == participant
        met[conversation.bot.bot_id] += 1
        assert make_rating(conversation).task.completion_code
    assert met == dict.fromkeys(study.bots, 1)
    with pytest.raises(Refused, match="every chatbot"):
        task_open(participant=participant)
