"""Calls that read conversations, runs and studies as pages and commands do; stars, tags, notes, votes and flags."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluation.analysis.leaderboard import leaderboard
from evaluation.hybrid.baselines import MIN_BOTS
from tests.builders import make_annotated, make_conversation, make_rating, make_study
from tests.webapp.api.programs import Program, streamed
from webapp.conversations.models import Conversation, Turn
from webapp.core.rights import Right
from webapp.dashboard.render import report_html
from webapp.insights.data_quality import flags_counted
from webapp.insights.report_files import report_read
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, MetricRun, SelfPlayRun
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.selectors import study_conversations
from webapp.results.cache import AnalysisKey, get_result
from webapp.results.refresh import refresh_flags
from webapp.search.index_statistics import votes_of_bots
from webapp.search.models import Note, SavedSearch
from webapp.search.services import note_add, search_save, star_set, tag_add
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


@pytest.fixture(scope="module")
def shop(rows_of_file: None) -> int:
    """Make a study of four rated conversations; return its primary key."""
    study = make_study("shop")
    for quality in (2, 5, 6, 3):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality)
    return study.pk


@pytest.fixture
def run() -> SelfPlayRun:
    run = run_create(bots=["eliza"], n_conversations=3, n_turns=4, seed=7, enqueue=False)
    run_job(run)
    return SelfPlayRun.objects.get(pk=run.pk)


def rows_of(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in streamed(answer).decode().splitlines()]


def test_conversations_are_found_by_the_search_line_page_by_page(study: Study) -> None:
    program = Program(Right.READ)
    first = Conversation.objects.filter(study=study).order_by("created_at").first()
    tag_add(conversation=first, text="odd", author=program.user)
    star_set(conversation=first, is_starred=True, author=program.user)
    body = program.get("studies/shop/conversations", q="tag:odd", columns="quality").json()
    assert body["count"] == 1
    [row] = body["items"]
    assert (row["id"], row["tags"], row["is_starred"]) == (str(first.pk), ["odd"], True)
    assert row["figures"] == {"quality": 2.0}

    seen: list[str] = []
    after = ""
    while True:
        page = program.get(
            "studies/shop/conversations", q="sort:-quality", columns="quality", limit=1, after=after
        ).json()
        assert page["count"] == 4
        seen += [item["figures"]["quality"] for item in page["items"]]
        after = page["after"]
        if not after:
            break
    assert seen == [6, 5, 3, 2]


def test_a_page_of_conversations_takes_as_many_queries_however_many_there_are(study: Study) -> None:
    program = Program(Right.READ)

    def n_queries(limit: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            response = program.get("studies/shop/conversations", columns="quality", limit=limit)
        assert len(response.json()["items"]) == limit
        return len(queries)

    n_queries(2)  # what is looked up once for the process
    assert n_queries(2) == n_queries(4)


@pytest.mark.parametrize(
    ("asked", "path", "words"),
    [
        ({"q": "qualty>3"}, "q", "Did you mean"),
        ({"q": "quality>"}, "q", "For example:"),
        ({"columns": "qualty"}, "columns", "did you mean quality?"),
        ({"after": "yesterday"}, "after", "which is not a value from a previous page"),
        ({"limit": 0}, "limit", "limit is '0'; it must be a whole number from 1 to 500"),
    ],
)
def test_a_search_that_cannot_be_read_says_what_could(
    study: Study, asked: dict[str, Any], path: str, words: str
) -> None:
    answer = Program(Right.READ).get("studies/shop/conversations", **asked)
    assert answer.status_code == 422
    [mistake] = answer.json()["error"]["mistakes"]
    assert mistake["path"] == path
    assert words in mistake["message"]


def test_a_conversation_has_all_that_its_reader_shows(study: Study) -> None:
    program = Program(Right.READ)
    row = Conversation.objects.filter(study=study).order_by("created_at").first()
    note_add(conversation=row, text="Twice the same.", author=program.user)
    call_command("compute_metrics", "--study", "shop", "--metrics", "words", "--inline", stdout=StringIO())
    body = program.get(f"conversations/{row.pk}").json()
    texts = list(row.turns.order_by("index").values_list("speaker", "text"))
    assert [(turn["speaker"], turn["text"]) for turn in body["turns"]] == texts
    assert [rating["answers"]["quality"] for rating in body["ratings"]] == [2]
    assert [(note["text"], note["author"]) for note in body["notes"]] == [("Twice the same.", "ci")]
    [words] = body["metrics"]
    said = [len(text.split()) for speaker, text in texts if speaker == "human"]
    assert (words["metric"], words["is_current"]) == ("words", True)
    assert words["values"]["words_user"] == pytest.approx(sum(said) / len(said))
    assert program.get("conversations/00000000-0000-0000-0000-000000000000").status_code == 404


def test_searches_are_those_of_the_person(study: Study) -> None:
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    search_save(source=study, owner=program.user, name="bad ones", line="quality<3")
    search_save(source=study, owner=program.user, name="gone", line="no_such_metric>1")
    body = program.get("studies/shop/searches").json()
    assert [(one["name"], one["q"], bool(one["why"])) for one in body] == [
        ("bad ones", "quality<3", False),
        ("gone", "no_such_metric>1", True),
    ]
    assert other.get("studies/shop/searches").json() == []


def test_runs_are_listed_read_and_searched(run: SelfPlayRun) -> None:
    program = Program(Right.READ)
    listed = program.get("runs").json()
    assert listed["count"] == 1
    [row] = listed["items"]
    assert (row["id"], row["bots"], row["job"]["state"]) == (run.pk, ["eliza"], "done")
    result = program.get(f"runs/{run.pk}").json()
    assert result["by_pair"] == [{"first": "eliza", "bot": "eliza", "n_done": 3, "n_failed": 0}]
    assert program.get(f"runs/{run.pk}/conversations", q="bot:eliza limit:2").json()["count"] == 2
    assert program.get("runs/999").status_code == 404
    search_save(source=run, owner=program.user, name="first two", line="bot:eliza limit:2")
    assert program.get(f"runs/{run.pk}/searches").json() == [
        {"name": "first two", "q": "bot:eliza limit:2", "columns": "", "why": ""}
    ]
    params = {"name": "first", "q": "bot:eliza limit:1", "columns": ""}
    body = program.post(f"runs/{run.pk}/searches", params).json()
    assert {one["name"] for one in body} == {"first", "first two"}
    response = program.post(f"runs/{run.pk}/searches", params | {"q": "fluency>2"})
    assert response.status_code == 422
    left = program.delete(f"runs/{run.pk}/searches?name=first").json()
    assert [one["name"] for one in left] == ["first two"]
    assert program.get(f"runs/{run.pk}/tables/participants").status_code == 404


def test_tables_of_a_run_are_the_commands_bytes_and_hold_notes_and_metrics(run: SelfPlayRun, tmp_path: Path) -> None:
    program = Program(Right.READ)
    chat = Conversation.objects.filter(selfplay__run=run).order_by("created_at", "id").first()
    assert chat is not None
    tag_add(conversation=chat, text="loops", author=program.user)
    star_set(conversation=chat, is_starred=True, author=program.user)
    call_command("compute_metrics", "--run", str(run.pk), "--metrics", "words", "--inline", stdout=StringIO())
    names = [one["name"] for one in program.get("run-tables").json()]
    assert {"conversations", "messages", "metrics", "reader_notes", "bots"} <= set(names)
    for name in names:
        path = tmp_path / f"{name}.jsonl"
        call_command(
            "export", "--run", str(run.pk), "--what", name, "--format", "jsonl", "--output", str(path),
            stdout=StringIO(),
        )  # fmt: skip
        assert streamed(program.get(f"runs/{run.pk}/tables/{name}")) == path.read_bytes()
    conversations = rows_of(program.get(f"runs/{run.pk}/tables/conversations"))
    assert [conversation["ordinal"] for conversation in conversations] == [0, 1, 2]
    assert {len(conversation["turns"]) for conversation in conversations} == {4}
    notes = rows_of(program.get(f"runs/{run.pk}/tables/reader_notes"))
    assert [(note["kind"], note["text"]) for note in notes] == [("tag", "loops"), ("star", "")]
    assert len(rows_of(program.get(f"runs/{run.pk}/tables/metrics"))) == 3
    page = program.client.force_login(program.user) or program.client.get(
        f"/dashboard/runs/{run.pk}/export/?what=conversations&format=jsonl"
    )
    assert streamed(page) == (tmp_path / "conversations.jsonl").read_bytes()

    report = import_conversations(tmp_path / "conversations.jsonl", study_key="played")
    assert (report.conversations, report.ratings) == (3, 0)
    with pytest.raises(CommandError, match="a self-play run has no table 'package'"):
        call_command("export", "--run", str(run.pk), "--what", "package", "--format", "csv", "--output", "x")


def test_the_leaderboard_has_ranks_as_ranges(study: Study) -> None:
    program = Program(Right.READ)
    body = program.get("studies/shop/leaderboard").json()
    computed_result = get_result(AnalysisKey(study, "comparisons")).computed_result
    expected = leaderboard(computed_result.result.means, computed_result.result.compared).to_json()
    assert body["document"] == json.loads(json.dumps(expected))
    assert [(place["bot"], place["ranks"]) for place in body["document"]["places"]] == [
        ("eliza", [1, 1]),
        ("parrot", None),
    ]
    assert (body["questions"][0], body["n_ratings"], body["job"]) == ("quality", 4, None)
    fluency = program.get("studies/shop/leaderboard", by="fluency").json()["document"]
    assert fluency is None or fluency["dimension"] == "fluency"
    response = program.get("studies/shop/leaderboard", by="qualty")
    assert response.status_code == 422
    assert "must be one of quality" in response.json()["error"]["message"]


def test_the_overview_says_what_is_next_and_a_call_starts_it(study: Study) -> None:
    program = Program(Right.READ, Right.RUN)
    body = program.get("studies/shop/overview").json()
    assert body["cards"]["n_completed"] == 4
    assert {bot["bot_id"]: bot["n_completed"] for bot in body["bots"]} == {"eliza": 2, "parrot": 2}
    stages = [stage["title"] for stage in body["pipeline"]["stages"]]
    assert stages == ["Collect", "Metrics", "Self-play", "Fit", "Report"]
    assert body["pipeline"]["next"]["action"] == "analyse"
    assert MIN_BOTS > 2, "two bots are too few to fit"
    started = program.post("studies/shop/analysis", {})
    assert (started.status_code, started.json()["kind"]) == (202, "metrics")
    assert MetricRun.objects.get().then == {"study": "shop", "steps": []}
    assert program.get("studies/shop/overview").json()["pipeline"]["next"]["job"]["kind"] == "metrics"
    make_annotated("items")
    assert program.get("studies/items/overview").json()["pipeline"] is None
    reader = Program(Right.READ, name="reader")
    assert reader.post("studies/shop/analysis", {}).status_code == 403


def test_the_live_room_is_that_of_the_page(study: Study) -> None:
    body = Program(Right.READ).get("studies/shop/live").json()
    assert (body["state"], body["n_done"], body["n_agreed"]) == ("collecting", 4, 4)
    assert {bot["id"]: bot["n_done"] for bot in body["bots"]} == {"eliza": 2, "parrot": 2}
    assert sum(hour["n"] for hour in body["hours"]) == 4
    assert body["stages"][-1]["n"] == 4


def test_a_report_is_asked_for_read_and_sent_as_a_page(study: Study) -> None:
    program = Program(Right.READ)
    missing = program.get("studies/shop/report")
    assert missing.status_code == 404
    assert "send a POST to this address to create it" in missing.json()["error"]["message"]
    response = program.post("studies/shop/report", {})
    assert response.status_code == 202
    job = Job.objects.get(kind="report")
    run_job(job)
    body = program.get("studies/shop/report").json()
    document = report_read(job)
    assert (body["n_ratings"], body["is_current"]) == (4, True)
    assert [chapter["id"] for chapter in body["chapters"]] == [chapter.id for chapter in document.chapters]
    assert body["headlines"][0]["text"] == document.numbers[0].text
    assert program.get("studies/shop/report.html").content.decode() == report_html(document)
    first = body["chapters"][0]["id"]
    assert [chapter["id"] for chapter in program.get("studies/shop/report", sections=first).json()["chapters"]] == [
        first
    ]
    assert "it has" in program.get("studies/shop/report", sections="x").json()["error"]["message"]
    make_rating(make_conversation(study, n_exchanges=3), quality=7)
    assert program.get("studies/shop/report").json()["is_current"] is False


def test_a_report_asked_for_with_parameters_is_found(study: Study) -> None:
    program = Program(Right.READ)
    params = {"include_synthetic": True, "without": ["fast", "pasted"], "like": "ghandeharioun2019"}
    where = "include_synthetic=true&without=fast,pasted&like=ghandeharioun2019"
    response = program.post("studies/shop/report", params)
    assert response.status_code == 202, response.content
    run_job(Job.objects.get(kind="report"))
    assert response["Location"] == f"/api/v1/studies/shop/report?{where}"
    result = program.get(response["Location"].removeprefix("/api/v1/"))
    assert (result.status_code, result.json()["like"]) == (200, "ghandeharioun2019")
    plain = program.get("studies/shop/report")
    assert plain.status_code == 404
    assert f"studies/shop/report?{where}" in plain.json()["error"]["message"]


def test_rehearsals_and_items_are_started_with_their_rights(study: Study, run: SelfPlayRun) -> None:
    program = Program(Right.READ, Right.RUN)
    started = program.post("studies/shop/rehearsals", {"people": 3})
    assert started.status_code == 202
    assert Job.objects.get(kind="rehearsal").payload == {
        "people": 3, "url": "http://testserver", "seed": 0,
    }  # fmt: skip
    make_annotated("items")
    params = {"run": run.pk, "n_contexts": 2}
    refused = program.post("studies/items/items", params)
    assert refused.status_code == 403
    assert "administer" in refused.json()["error"]["message"]
    builder = Program(Right.READ, Right.RUN, Right.ADMINISTER, name="builder")
    assert builder.post("studies/items/items", params).status_code == 202
    assert Job.objects.get(kind="items").payload["run"] == run.pk
    assert builder.post("studies/shop/items", params).status_code == 400


def test_a_fit_alone_is_what_its_page_downloads(study: Study) -> None:
    program = Program(Right.READ, Right.RUN)
    fit = program.post("studies/shop/fits", {"targets": ["quality"], "preset": "paper"}).json()
    [listed] = program.get("studies/shop/fits").json()
    assert (listed["id"], listed["has_file"], listed["result"]) == (fit["id"], False, None)
    assert program.get(f"fits/{fit['id']}/file").status_code == 404
    kept = {"preset": "paper", "folds": []}
    study.hybrid_fits.update(kept=kept, state="done", result={"preset": "paper"})
    assert program.get(f"fits/{fit['id']}").json()["result"] == {"preset": "paper"}
    assert program.get(f"fits/{fit['id']}/file").json() == kept
    program.client.force_login(program.user)
    page = program.client.get(f"/dashboard/studies/shop/hybrid/{fit['id']}.json")
    assert page.json() == kept


NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def chat(study: Study) -> Conversation:
    return Conversation.objects.filter(study=study).order_by("created_at")[0]


def test_stars_tags_and_notes_are_written_once_and_taken_away(chat: Conversation, study: Study) -> None:
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    path = f"conversations/{chat.pk}"
    for _ in range(2):
        assert program.put(f"{path}/star").json()["is_starred"] is True
        tagged = program.post(f"{path}/tags", {"text": " Odd  one "}).json()
        noted = program.post(f"{path}/notes", {"text": "Twice the same.\n"}).json()
    assert [(tag["text"], tag["author"]) for tag in tagged["tags"]] == [("odd one", "ci")]
    assert [(note["text"], note["author"]) for note in noted["notes"]] == [("Twice the same.", "ci")]
    assert Note.objects.count() == 3
    twin = other.post(f"{path}/notes", {"text": "Twice the same."}).json()["notes"]
    assert [one["author"] for one in twin] == ["ci", "other"]
    read = program.get(path).json()
    assert (read["is_starred"], read["tags"], read["notes"]) == (True, tagged["tags"], twin)
    body = program.get("studies/shop/conversations", q='tag:"odd one" is:starred').json()
    assert [item["id"] for item in body["items"]] == [str(chat.pk)]

    for _ in range(2):
        assert program.delete(f"{path}/star").json()["is_starred"] is False
        assert program.delete(f"{path}/tags", text="ODD one").json()["tags"] == []
        notes = program.delete(f"{path}/notes/{twin[0]['id']}").json()["notes"]
    assert notes == twin[1:]
    [elsewhere] = Conversation.objects.filter(study=study).exclude(pk=chat.pk)[:1]
    program.delete(f"conversations/{elsewhere.pk}/notes/{twin[1]['id']}")
    assert Note.objects.count() == 1, "a note goes by the address of its own conversation"


def test_what_is_no_tag_or_note_is_told(chat: Conversation) -> None:
    program = Program(Right.READ)
    path = f"conversations/{chat.pk}"
    for call in (program.post(f"{path}/tags", {"text": "a, b"}), program.delete(f"{path}/tags", text='"')):
        assert (call.status_code, call.json()["error"]["code"]) == (400, "tag")
        assert "1 to 40 characters" in call.json()["error"]["message"]
    long = program.post(f"{path}/notes", {"text": "x" * 5001})
    assert "The note has 5001 characters. Use 1 to 5000." in long.json()["error"]["message"]
    missing = program.post(f"{path}/notes", {"words": "x"})
    assert missing.status_code == 422
    assert {mistake["path"] for mistake in missing.json()["error"]["mistakes"]} == {"text", "words"}
    assert program.put(f"conversations/{NOBODY}/star").status_code == 404
    assert program.delete(f"conversations/{NOBODY}/notes/1").status_code == 404
    assert not Note.objects.exists()
    program.user.user_permissions.clear()
    refused = program.put(f"{path}/star")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_right")


def test_searches_are_kept_and_forgotten_by_name_for_one_person(study: Study) -> None:
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    path = "studies/shop/searches"
    for q in ("quality<4", "quality<3 sort:quality"):
        response = program.post(path, {"name": "Bad  ones", "q": q, "columns": "quality,turns"})
        assert response.status_code == 200
    assert response.json() == [{"name": "Bad ones", "q": q, "columns": "quality,turns", "why": ""}]
    assert program.get(path).json() == response.json()
    assert other.delete(path, name="Bad ones").json() == []
    assert SavedSearch.objects.exists(), "somebody else's"
    for _ in range(2):
        assert program.delete(path, name="Bad ones").json() == []
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
    assert (none["n"], {bot["bot"] for bot in none["bots"]}) == (0, {"eliza", "parrot"})
    assert all(bot["share"] is None and bot["low"] is None for bot in none["bots"])
    replies = Turn.objects.filter(conversation__study=study, speaker="bot")
    replies.filter(conversation__bot__bot_id="parrot").update(vote=1)
    eliza = replies.filter(conversation__bot__bot_id="eliza").order_by("pk")
    eliza.filter(pk=eliza[0].pk).update(vote=-1)
    body = program.get("studies/shop/votes").json()
    assert (body["n"], body["level"]) == (7, 0.9)
    assert [(bot["bot"], bot["up"], bot["down"]) for bot in body["bots"]] == [("parrot", 6, 0), ("eliza", 0, 1)]
    expected = votes_of_bots(study, study_conversations(study))["parrot"]
    first = body["bots"][0]
    assert (first["n_chats"], first["share"]) == (2, 1.0)
    assert (first["low"], first["high"]) == (expected.low, expected.high)
    assert first["low"] is not None
    assert program.get("studies/shop/votes", without="fsat").status_code == 400


def test_flags_are_counted_as_on_the_page_and_name_nobody(study: Study) -> None:
    program = Program(Right.READ)
    alike = {"quality": 2, "fluency": 2, "diversity": 2, "contingency": 2, "empathy": 2}
    make_rating(make_conversation(study, n_exchanges=3), **alike)
    body = program.get("studies/shop/flags").json()
    state = refresh_flags(study).state
    assert state is not None
    page = flags_counted(study, state)
    assert (body["n_people"], body["n_tasks"], body["is_current"]) == (5, 5, True)
    assert body["n_flagged"] == page.n_flagged == 1
    kinds = {kind["name"]: kind for kind in body["kinds"]}
    assert {name: kind["n_people"] for name, kind in kinds.items()} == {kind.name: kind.n_people for kind in page.kinds}
    same = kinds["same_answer"]
    assert (same["n_people"], same["n_tasks"], same["of"], same["why_none"]) == (1, 1, 5, "")
    assert "ten finished tasks" in kinds["fast"]["why_none"]
    people = [pk.hex[:6] for pk in Conversation.objects.values_list("participant", flat=True)]
    assert not any(name in str(body) for name in people)
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
