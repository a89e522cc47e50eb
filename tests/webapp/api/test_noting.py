"""Calls that star, tag, note and keep searches, which can be sent twice; and what is counted of votes and flags."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.api.programs import Program
from webapp.conversations.models import Conversation, Turn
from webapp.core.rights import Right
from webapp.dashboard.data_quality import flags_counted
from webapp.ratings.selectors import study_conversations
from webapp.results.refresh import refresh_flags
from webapp.search.index_statistics import votes_of_bots
from webapp.search.models import Note, SavedSearch
from webapp.studies.models import Study

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def shop(rows_of_file: None) -> int:
    """Make a study of four rated conversations; return its primary key."""
    study = make_study("shop")
    for quality in (2, 5, 6, 3):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality)
    return study.pk


@pytest.fixture
def study(shop: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=shop)


@pytest.fixture
def chat(study: Study) -> Conversation:
    return Conversation.objects.filter(study=study).order_by("created_at")[0]


def test_stars_tags_and_notes_are_written_once_and_taken_away(chat: Conversation, study: Study) -> None:
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    where = f"conversations/{chat.pk}"
    for _ in range(2):
        assert program.put(f"{where}/star").json()["is_starred"] is True
        tagged = program.post(f"{where}/tags", {"text": " Odd  one "}).json()
        noted = program.post(f"{where}/notes", {"text": "Twice the same.\n"}).json()
    assert [(one["text"], one["author"]) for one in tagged["tags"]] == [("odd one", "ci")]
    assert [(one["text"], one["author"]) for one in noted["notes"]] == [("Twice the same.", "ci")]
    assert Note.objects.count() == 3
    twin = other.post(f"{where}/notes", {"text": "Twice the same."}).json()["notes"]
    assert [one["author"] for one in twin] == ["ci", "other"]
    read = program.get(where).json()
    assert (read["is_starred"], read["tags"], read["notes"]) == (True, tagged["tags"], twin)
    found = program.get("studies/shop/conversations", q='tag:"odd one" is:starred').json()
    assert [one["id"] for one in found["items"]] == [str(chat.pk)]

    for _ in range(2):
        assert program.delete(f"{where}/star").json()["is_starred"] is False
        assert program.delete(f"{where}/tags", text="ODD one").json()["tags"] == []
        left = program.delete(f"{where}/notes/{twin[0]['id']}").json()["notes"]
    assert left == twin[1:]
    [elsewhere] = Conversation.objects.filter(study=study).exclude(pk=chat.pk)[:1]
    program.delete(f"conversations/{elsewhere.pk}/notes/{twin[1]['id']}")
    assert Note.objects.count() == 1, "a note goes by the address of its own conversation"


def test_what_is_no_tag_or_note_is_told(chat: Conversation) -> None:
    program = Program(Right.READ)
    where = f"conversations/{chat.pk}"
    for call in (program.post(f"{where}/tags", {"text": "a, b"}), program.delete(f"{where}/tags", text='"')):
        assert (call.status_code, call.json()["error"]["code"]) == (400, "tag")
        assert "1 to 40 characters" in call.json()["error"]["message"]
    long = program.post(f"{where}/notes", {"text": "x" * 5001})
    assert "A note has 1 to 5000 characters; this one has 5001." in long.json()["error"]["message"]
    missing = program.post(f"{where}/notes", {"words": "x"})
    assert missing.status_code == 422
    assert {one["path"] for one in missing.json()["error"]["mistakes"]} == {"text", "words"}
    assert program.put(f"conversations/{NOBODY}/star").status_code == 404
    assert program.delete(f"conversations/{NOBODY}/notes/1").status_code == 404
    assert not Note.objects.exists()
    program.user.user_permissions.clear()
    refused = program.put(f"{where}/star")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_right")


def test_searches_are_kept_and_forgotten_by_name_for_one_person(study: Study) -> None:
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    where = "studies/shop/searches"
    for q in ("quality<4", "quality<3 sort:quality"):
        kept = program.post(where, {"name": "Bad  ones", "q": q, "columns": "quality,turns"})
        assert kept.status_code == 200
    assert kept.json() == [{"name": "Bad ones", "q": q, "columns": "quality,turns", "why": ""}]
    assert program.get(where).json() == kept.json()
    assert other.delete(where, name="Bad ones").json() == []
    assert SavedSearch.objects.exists(), "somebody else's"
    for _ in range(2):
        assert program.delete(where, name="Bad ones").json() == []
    assert not SavedSearch.objects.exists()


@pytest.mark.parametrize(
    ("asked", "path", "words"),
    [
        ({"name": "x", "q": "qualty<3"}, "q", "Did you mean quality"),
        ({"name": "x", "q": "quality<3", "columns": "qualty"}, "columns", "did you mean quality?"),
        ({"name": "x", "q": ""}, "q", "q is ''"),
        ({"name": "x" * 81, "q": "quality<3"}, "name", "80"),
    ],
)
def test_a_search_that_cannot_be_kept_says_why(study: Study, asked: dict[str, str], path: str, words: str) -> None:
    answer = Program(Right.READ).post("studies/shop/searches", asked)
    assert answer.status_code == 422
    [mistake] = answer.json()["error"]["mistakes"]
    assert mistake["path"] == path
    assert words in mistake["message"]
    assert not SavedSearch.objects.exists()


def test_votes_are_those_of_the_tab(study: Study) -> None:
    program = Program(Right.READ)
    none = program.get("studies/shop/votes").json()
    assert (none["n"], {one["bot"] for one in none["bots"]}) == (0, {"eliza", "parrot"})
    assert all(one["share"] is None and one["low"] is None for one in none["bots"])
    replies = Turn.objects.filter(conversation__study=study, speaker="bot")
    replies.filter(conversation__bot__bot_id="parrot").update(vote=1)
    eliza = replies.filter(conversation__bot__bot_id="eliza").order_by("pk")
    eliza.filter(pk=eliza[0].pk).update(vote=-1)
    found = program.get("studies/shop/votes").json()
    assert (found["n"], found["level"]) == (7, 0.9)
    assert [(one["bot"], one["up"], one["down"]) for one in found["bots"]] == [("parrot", 6, 0), ("eliza", 0, 1)]
    wanted = votes_of_bots(study, study_conversations(study))["parrot"]
    first = found["bots"][0]
    assert (first["n_chats"], first["share"]) == (2, 1.0)
    assert (first["low"], first["high"]) == (wanted.low, wanted.high)
    assert first["low"] is not None
    assert program.get("studies/shop/votes", without="fsat").status_code == 400


def test_flags_are_counted_as_on_the_page_and_name_nobody(study: Study) -> None:
    program = Program(Right.READ)
    alike = {"quality": 2, "fluency": 2, "diversity": 2, "contingency": 2, "empathy": 2}
    make_rating(make_conversation(study, n_exchanges=3), **alike)
    found = program.get("studies/shop/flags").json()
    state = refresh_flags(study).state
    assert state is not None
    page = flags_counted(study, state)
    assert (found["n_people"], found["n_tasks"], found["is_current"]) == (5, 5, True)
    assert found["n_flagged"] == page.n_flagged == 1
    kinds = {one["name"]: one for one in found["kinds"]}
    assert {name: one["n_people"] for name, one in kinds.items()} == {one.name: one.n_people for one in page.kinds}
    same = kinds["same_answer"]
    assert (same["n_people"], same["n_tasks"], same["of"], same["why_none"]) == (1, 1, 5, "")
    assert "ten finished tasks" in kinds["fast"]["why_none"]
    people = [pk.hex[:6] for pk in Conversation.objects.values_list("participant", flat=True)]
    assert not any(name in str(found) for name in people)
    assert program.get("studies/nothing/flags").status_code == 404


def test_votes_and_flags_take_as_many_queries_however_many_there_are(study: Study) -> None:
    program = Program(Right.READ)

    def n_queries(path: str) -> int:
        program.get(path)
        with CaptureQueriesContext(connection) as queries:
            program.get(path)
        return len(queries)

    paths = ("studies/shop/votes", "studies/shop/flags")
    before = [n_queries(path) for path in paths]
    for _ in range(4):
        make_rating(make_conversation(study, n_exchanges=3), quality=4)
    Turn.objects.filter(conversation__study=study, speaker="bot").update(vote=1)
    assert [n_queries(path) for path in paths] == before
