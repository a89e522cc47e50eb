"""Flags as pay shows them: who was fast, who answered all alike, who has no code; each with its number and share."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import fail_reply, make_conversation
from webapp.conversations.models import Conversation
from webapp.pay.flags.base import flags_of
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Study, Task
from webapp.studies.services import task_close
from webapp.studies.versions import study_edit

Make = Callable[..., SubmissionKey]


def named(study: Study) -> dict[SubmissionKey, dict[str, str]]:
    flags = flags_of(submissions_of(study))
    return {key: {flag.name: flag.words for flag in found} for key, found in flags.items()}


def test_half_the_usual_time_is_fast(paid: Study, visit: Make) -> None:
    quick = visit("rated", "quick", seconds=112, quality=3, fluency=5)
    for number in range(8):
        visit("rated", str(number), seconds=460 + number, quality=number % 7 + 1, fluency=2)
    assert named(paid) == {}, "nine visits are no distribution"
    visit("rated", "usual", seconds=480, quality=3, fluency=5)
    assert named(paid) == {
        quick: {
            "fast": "1:52 minutes; 90 % of people took longer, half of them 7:44 or more. 10 % of tasks have this flag."
        }
    }


def test_the_same_answer_throughout(paid: Study, visit: Make) -> None:
    alike = {"quality": 4, "fluency": 4, "diversity": 4, "contingency": 4, "empathy": 4}
    same = visit("rated", "same", **alike)
    visit("rated", "other", **{**alike, "quality": 5})
    visit("rated", "third", **{**alike, "empathy": 1})
    found = named(paid)
    assert list(found) == [same]
    assert found[same] == {"same_answer": "5 times 4. 33 % of tasks have this flag."}


def test_who_lost_a_chat_or_came_for_a_code_that_is_missing_has_none(paid: Study, visit: Make) -> None:
    visit("rated", "fine", quality=1, fluency=2)
    chat = make_conversation(paid, platform="prolific", external_id="pid-lost")
    fail_reply(chat)
    Conversation.objects.filter(pk=chat.pk).update(state="failed")
    task_close(task=chat.slot.task, state=Task.State.FAILED)
    lost = SubmissionKey(chat.participant_id, "")
    assert set(named(paid)) == {lost}
    assert "50 % of those who earned pay" in named(paid)[lost]["no_code"]
    paid = study_edit(study=paid, code_rated="", code_bot_failed="")
    assert set(named(paid)) == {lost}, "who finished before was shown a code"
    later = visit("rated", "later", quality=2, fluency=1)
    assert set(named(paid)) == {lost, later}, "a code of Confab's own is none to be paid by"
