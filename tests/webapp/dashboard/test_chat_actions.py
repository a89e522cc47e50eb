"""Actions on selected conversations: a judging study, exclusion with undo, notes; and a bot's record."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.builders import make_conversation, make_rating, make_study, signed_in
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.ratings.selectors import study_ratings
from webapp.search.models import Note
from webapp.studies.models import Study
from webapp.studies.selectors import conversations_given

QUALITIES = [4, 2, 7, 1, 5, 6]


@pytest.fixture
def study(db: Any) -> Study:
    """Make a study of six rated chats and an open one."""
    study = make_study("acts")
    for quality in QUALITIES:
        make_rating(make_conversation(study, n_exchanges=3), quality=quality, fluency=3)
    make_conversation(study, n_exchanges=1)
    return study


def act(client: Client, study: Study, action: str, **values: Any) -> Any:
    return client.post(reverse(f"dashboard:study_{action}", args=[study.key]), values)


def worst(study: Study, n: int) -> list[Conversation]:
    """Return the chats with the lowest ratings, lowest first."""
    rated = study.conversations.filter(ratings__isnull=False)
    return sorted(rated, key=lambda chat: chat.ratings.get().answers["quality"])[:n]


def list_of(client: Client, study: Study, line: str = "") -> Any:
    return client.get(reverse("dashboard:study_conversations", args=[study.key]), {"q": line})


@pytest.mark.parametrize("protocol", ["turns", "error_spans"])
def test_people_judge_the_chats_of_a_search(staff: Client, study: Study, protocol: str) -> None:
    answer = act(staff, study, "judge", protocol=protocol, q="has:quality sort:quality limit:3")
    draft = Study.objects.exclude(pk=study.pk).get()
    assertRedirects(answer, reverse("dashboard:study_build_step", args=[draft.key, "questions"]))
    assert (draft.state, draft.protocol, draft.name) == (Study.State.DRAFT, protocol, "Judge: acts")
    assert draft.values.marking.conversations_of == "acts"
    assert list(draft.values.marking.conversations_chosen) == [str(chat.pk) for chat in worst(study, 3)]
    assert set(conversations_given(draft)) == set(worst(study, 3))
    preview = staff.get(reverse("participant:preview", args=[draft.key, "judge"]))
    assert preview.status_code == 200
    assert worst(study, 3)[0].turns.first().text in preview.content.decode()  # type: ignore[union-attr]


def test_people_compare_ticked_chats_alone(staff: Client, study: Study) -> None:
    first, second, *_rest = worst(study, 4)
    act(staff, study, "judge", protocol="dialogues", chat=[str(second.pk), str(first.pk)])
    draft = Study.objects.exclude(pk=study.pk).get()
    assert set(conversations_given(draft)) == {first, second}


def test_a_judging_study_never_gives_chats_that_were_not_chosen_or_were_excluded_later(
    staff: Client, study: Study
) -> None:
    chats = worst(study, 2)
    act(staff, study, "judge", protocol="turns", chat=[str(chat.pk) for chat in chats])
    act(staff, study, "exclude", what="exclude", chat=[str(chats[0].pk)])
    draft = Study.objects.exclude(pk=study.pk).get()
    assert list(conversations_given(draft)) == [chats[1]]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"protocol": "chat"}, "“chat” is not a way to judge stored conversations."),
        ({"protocol": "turns", "q": "bot:nobody"}, "There is no bot “nobody” here."),
        ({"protocol": "turns", "q": "quality>7"}, "No conversation is selected."),
    ],
)
def test_no_study_is_made_of_nothing(staff: Client, study: Study, values: dict[str, str], reason: str) -> None:
    answer = act(staff, study, "judge", **values)
    assert Study.objects.count() == 1
    assertContains(staff.get(answer.url), f"No study was made: {reason}")


def test_excluded_chats_are_in_no_result_until_that_is_undone(staff: Client, study: Study) -> None:
    chats = worst(study, 2)
    before = study_ratings(study).values("quality").tolist()
    page = reverse("dashboard:study_conversations", args=[study.key])
    answer = act(staff, study, "exclude", what="exclude", chat=[str(chat.pk) for chat in chats], next=page)
    assertRedirects(answer, page, fetch_redirect_response=False)
    assert sorted(study_ratings(study).values("quality")) == [4, 5, 6, 7]
    leaderboard = staff.get(reverse("dashboard:study_results", args=[study.key]))
    assertContains(leaderboard, "Excluded by researchers:")
    assert sum(int(row.n) for row in leaderboard.context["board"].rows) == 4
    assert {note.conversation for note in Note.objects.filter(text="Excluded from all results.")} == set(chats)
    listed = list_of(staff, study)
    assertContains(listed, "2 conversations are excluded from all results.")
    act(staff, study, "exclude", what="undo")
    assert study_ratings(study).values("quality").tolist() == before
    assertNotContains(list_of(staff, study), "excluded from all results.\n")
    board = staff.get(reverse("dashboard:study_results", args=[study.key])).context["board"]
    assert sum(int(row.n) for row in board.rows) == 6


def test_a_stored_result_is_not_taken_for_that_of_other_excluded_chats(staff: Client, study: Study) -> None:
    first, second, *_rest = worst(study, 3)
    address = reverse("dashboard:study_results", args=[study.key])
    means = []
    for chat in (first, second):
        act(staff, study, "exclude", what="exclude", chat=[str(chat.pk)])
        means.append([row.mean for row in staff.get(address).context["board"].rows])
        act(staff, study, "exclude", what="undo")
    assert means[0] != means[1]


def test_excluded_chats_are_included_again_long_after(staff: Client, study: Study) -> None:
    chat = worst(study, 1)[0]
    act(staff, study, "exclude", what="exclude", chat=[str(chat.pk)])
    staff.session.flush()
    other = signed_in(*Right, username="other")
    page = list_of(other, study, "state:excluded")
    assertContains(page, "Include again")
    assertNotContains(page, ">Undo<")
    act(other, study, "exclude", what="include", chat=[str(chat.pk)])
    chat.refresh_from_db()
    assert chat.state == Conversation.State.COMPLETED


def test_only_completed_chats_are_excluded_and_the_rest_is_counted(staff: Client, study: Study) -> None:
    answer = act(staff, study, "exclude", what="exclude")
    assertContains(staff.get(answer.url), "1 chat was not completed, so no result included it.")
    assert study.conversations.filter(state="excluded").count() == 6
    assert study.conversations.filter(state="open").count() == 1


def test_a_note_is_added_to_each_ticked_chat_once(staff: Client, study: Study) -> None:
    chats = [str(chat.pk) for chat in worst(study, 2)]
    for _again in range(2):
        act(staff, study, "note", text="Off topic", chat=chats)
    assert sorted(map(str, Note.objects.values_list("conversation", flat=True))) == sorted(chats)
    answer = act(staff, study, "note", text=" ", chat=chats)
    assertContains(staff.get(answer.url), "The note has 0 characters.")


def test_chats_of_another_study_are_never_selected(staff: Client, study: Study) -> None:
    other = make_conversation(make_study("other"), n_exchanges=3)
    make_rating(other, quality=3)
    act(staff, study, "exclude", what="exclude", chat=[str(other.pk)])
    act(staff, study, "note", text="Mine", chat=[str(other.pk)])
    other.refresh_from_db()
    assert other.state == Conversation.State.COMPLETED
    assert not Note.objects.exists()


def test_readers_only_add_notes(study: Study) -> None:
    reader = signed_in(Right.READ, username="reader")
    chat = str(worst(study, 1)[0].pk)
    assert act(reader, study, "judge", protocol="turns", chat=[chat]).status_code == 403
    assert act(reader, study, "exclude", what="exclude", chat=[chat]).status_code == 403
    assert act(reader, study, "note", text="Odd", chat=[chat]).status_code == 302
    page = list_of(reader, study)
    assertNotContains(page, "Have people judge these")
    assertContains(page, "Add note")


def test_a_bot_has_its_ranks_its_best_and_its_worst_chats(staff: Client, study: Study) -> None:
    bots = {chat.bot.bot_id for chat in study.conversations.select_related("bot")}
    for bot in sorted(bots):
        page = staff.get(reverse("dashboard:bot", args=[bot]))
        [standing] = page.context["standings"]
        own = [chat for chat in worst(study, 6) if chat.bot.bot_id == bot]
        qualities = [chat.ratings.get().answers["quality"] for chat in own]
        assert [chat.rating[1] for chat in standing.worst] == qualities[:3]
        assert [chat.rating[1] for chat in standing.best] == qualities[::-1][:3]
        assert str(own[0].pk) in standing.worst[0].href
        listed = staff.get(standing.best_href).context
        assert [row[0].conversation.pk for row in listed["rows"]] == [chat.pk for chat in reversed(own)]
