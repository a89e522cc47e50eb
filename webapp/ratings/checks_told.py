"""Results of a study's checks: the number passed, and the participants' agreement with themselves.

They are computed whenever flags are made and stored with them, for this reads every answer to a check.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from evaluation.analysis.self_agreement import OwnAgreement
from evaluation.storing import result_dump
from webapp.ratings.checks import Kind, checks_answered
from webapp.ratings.repeats import own_of_people, own_of_questions, repeats_answered
from webapp.studies.models import Outcome, Study, Task

BESIDE = "checks"
MOST_PEOPLE = 50


def checks_told(study: Study) -> dict[str, Any]:
    """Return the results of participants' checks, without scripted and withdrawn participants.

    Returns:
        `kinds`: of each kind of check with an answer, `n` and `n_passed`, of the quiz at the first try.
        `own`: by question, as `result_dump` writes it, participants' agreement with themselves; empty without repeated
            items.
        `people`: participants who answered twice, the lowest share first, at most 50; `n_people`: all of them.
    """
    tasks = Task.objects.filter(participant__study=study, participant__is_synthetic=False)
    met: Counter[Kind] = Counter()
    passed: Counter[Kind] = Counter()
    for one in checks_answered(tasks.exclude(outcome=Outcome.WITHDRAWN)):
        if one.attempt == 1:
            met[one.kind] += 1
            passed[one.kind] += one.passed
    again = list(repeats_answered(study))
    people = own_of_people(again)
    return {
        "kinds": {kind: {"n": n, "n_passed": passed[kind]} for kind, n in met.items()},
        "own": {
            key: result_dump(found, OwnAgreement)
            for key, found in own_of_questions(study, again).items()
        },
        "people": [
            {
                "person": one.person.hex,
                "n_same": one.n_same,
                "n": one.n,
                "low": one.low,
                "high": one.high,
            }
            for one in people[:MOST_PEOPLE]
        ],
        "n_people": len(people),
    }
