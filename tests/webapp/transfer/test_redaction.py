"""Redaction: rules on marked texts, decisions, redacted exports, erasure, and the page."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command
from django.urls import reverse

from tests.builders import exchange, make_conversation, make_rating, make_staff, make_study, signed_in
from tests.conftest import ROOT
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.models import Rating
from webapp.studies.models import Item, QuestionAnswers, Study
from webapp.studies.privacy import participants_erase, query_participant
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.models import RedactionHit, RedactionReview
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.redaction import review as review_module
from webapp.transfer.redaction.recall import measure_recall, read_marked
from webapp.transfer.redaction.redactor import Redactor
from webapp.transfer.redaction.review import (
    RedactionSummary,
    hit_decide,
    list_hits,
    review_finish,
    summarise_redaction,
    texts_search,
)
from webapp.transfer.redaction.rules import Hit, Rules

TEXTS = ROOT / "tests" / "data" / "redaction"
EMAIL = "vera.sommer@example.org"


@pytest.fixture
def study(db: None) -> Study:
    """Return a study whose texts hold an address in every place, and a second person's address once."""
    study = make_study("redacted")
    chat = make_conversation(study)
    exchange(chat, f"Write to {EMAIL}, or call 020 7946 0958.", f"I will write to {EMAIL.upper()}.")
    exchange(chat, f"Write to {EMAIL}, or call 020 7946 0958.", "Fine.")
    exchange(chat, "Thanks!", "Bye.")
    Turn.objects.filter(conversation=chat, index=3).update(trace=[{"kind": "tool", "name": "send", "text": EMAIL}])
    make_rating(chat)
    Rating.objects.update(comment=f"I am {EMAIL}")
    assert chat.participant is not None
    QuestionAnswers.objects.create(participant=chat.participant, version=study.version, answers={"age": f"30, {EMAIL}"})
    Item.objects.create(study=study, key="i1", context=[f"{EMAIL}?"], responses=[{"model": "m", "text": EMAIL}])
    other = make_conversation(study, entry_nonce="other")
    exchange(other, "Mine is other@example.org.", "Noted.")
    return study


def first_hit(study: Study, kind: str) -> RedactionHit:
    return RedactionHit.objects.filter(study=study, kind=kind).order_by("pk")[0]


@pytest.mark.parametrize("language", ["en", "de"])
def test_rules_find_nearly_all_marked_data_and_few_other_texts(language: str) -> None:
    results = {result.kind: result for result in measure_recall(TEXTS / f"{language}.txt")}
    n_lines = len(read_marked(TEXTS / f"{language}.txt")[1])
    assert n_lines > 80
    for kind in ("email", "url", "card", "id", "phone"):
        result = results[kind]
        assert result.n_marked >= 6
        assert result.n_right / result.n_marked > 0.9, kind
        assert result.n_right / result.n_hits > 0.85, kind
    unlisted = {result.kind: result for result in measure_recall(TEXTS / f"{language}.txt", with_names=False)}
    assert unlisted["name"].n_hits == 0 < results["name"].n_right < results["name"].n_marked


def test_equal_values_are_equal_in_every_spelling() -> None:
    texts = ("Call +44 20 7946 0958", "call 020 7946 0958!", "ring (020) 7946 0958")
    assert {hit.value for text in texts for hit in Rules(language="en").find_hits(text)} == {"+442079460958"}


@pytest.mark.parametrize(
    "piece", ["a dot ", "1 ", "4111 1111 1111 1112 ", "(0", "a@", "http://(", "Anna ", "DE89 3704 "]
)
def test_hostile_texts_end(piece: str) -> None:
    hits = Rules(["Anna B"]).find_hits(piece * (20_000 // len(piece)))
    assert all(hit.start < hit.end <= 20_000 for hit in hits)


def test_no_address_is_left_anywhere_in_a_redacted_package(study: Study) -> None:
    texts_search(study=study)
    hits = RedactionHit.objects.filter(study=study, kind="email")
    places = {name for name in ("turn", "rating", "answers", "item") if hits.exclude(**{name: None}).exists()}
    assert places == {"turn", "rating", "answers", "item"}
    options = ExportOptions(include_failed=True, is_redacted=True)
    with zipfile.ZipFile(io.BytesIO(b"".join(package_pieces(study, options)))) as package:
        texts = {name: package.read(name).decode("utf-8") for name in package.namelist()}
    assert [name for name, text in texts.items() if EMAIL in text.lower() or "7946" in text] == []
    assert "Write to [EMAIL_1], or call [PHONE_1]." in texts["data/turns.csv"]
    assert "I am [EMAIL_1]" in texts["data/ratings.csv"]
    assert "[EMAIL_1]" in texts["study/study.yaml"]
    assert "e-mail addresses: 9" in texts["README.md"]
    assert "e-mail addresses: 9" in texts["heds.md"]
    assert Turn.objects.filter(text__startswith=f"Write to {EMAIL}").count() == 2, "the stored texts stay"


def test_decisions_hold_for_a_hit_or_everywhere(study: Study) -> None:
    texts_search(study=study)
    text = Turn.objects.filter(conversation__study=study, text__contains="7946").first().text  # type: ignore[union-attr]
    with pytest.raises(Refused, match="undecided"):
        review_finish(study=study)
    hit_decide(study=study, pk=first_hit(study, "phone").pk, decision="keep", everywhere=True)
    assert Redactor(study).redact_text(text) == "Write to [EMAIL_1], or call 020 7946 0958."
    assert Redactor(study).redact_text("New: (020) 7946 0958") == "New: (020) 7946 0958", "by its value"
    hit_decide(study=study, pk=first_hit(study, "phone").pk, decision="replace")
    assert "[PHONE_1]" in Redactor(study).redact_text(text), "of equal texts, one replacement counts for all"
    for value in ("email", "email"):
        for hit in RedactionHit.objects.filter(study=study, kind=value):
            hit_decide(study=study, pk=hit.pk, decision="replace", everywhere=True)
    review_finish(study=study)
    assert texts_search(study=study).finished_at is not None, "a search without news changes nothing"
    exchange(Conversation.objects.filter(study=study).latest("created_at"), "also new@example.com", "ok")
    assert Redactor(study).redact_text("also new@example.com") == "also [EMAIL]", "newer than the search"
    assert texts_search(study=study).finished_at is None
    assert RedactionHit.objects.filter(study=study, decision="").count() == 1
    assert [hit.value for hit in list_hits(study, kind="", decided=False, after=0, limit=9)] == ["new@example.com"]


def test_hits_are_erased_with_the_person_and_hold_no_text(study: Study) -> None:
    texts_search(study=study)
    stored = json.dumps(list(RedactionHit.objects.values()), default=str)
    assert "example" not in stored
    assert "7946" not in stored
    other = Turn.objects.get(text__contains="other@").conversation
    participants_erase(participants=query_participant(other.participant))  # type: ignore[arg-type]
    values = [hit.value for hit in list_hits(study, kind="email", decided=False, after=0, limit=20)]
    assert values
    assert {value.lower() for value in values} == {EMAIL}


def test_a_model_adds_names_but_not_within_other_hits(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_names(texts: list[str]) -> object:
        return ([Hit("name", t.index("Vera"), t.index("Vera") + 4, "vera")] if "Vera" in t else [] for t in texts)

    monkeypatch.setattr(review_module, "_name_finder", lambda model: find_names)
    Turn.objects.filter(text="Thanks!").update(text="Thanks, Vera! Vera@example.org")
    texts_search(study=study)
    redacted = Redactor(study).redact_text("Thanks, Vera! Vera@example.org")
    assert redacted == "Thanks, [NAME_1]! [EMAIL_2]"


def test_a_missing_model_is_refused(study: Study) -> None:
    RedactionReview.objects.create(study=study, model="xx_none")
    with pytest.raises(Refused, match="not installed"):
        texts_search(study=study)


def test_the_page_searches_decides_and_finishes(study: Study) -> None:
    address = reverse("dashboard:study_redaction", args=[study.key])
    client = signed_in(*Right)
    client.post(address, {"what": "search", "names": " Vera  Sommer \n\nVera Sommer"})
    run_job(Job.objects.get(kind="redaction"))
    assert RedactionReview.objects.get(study=study).names == "Vera Sommer"
    page = client.get(address).content.decode()
    assert "<mark>020 7946 0958</mark>" in page
    hit = first_hit(study, "phone")
    accept = {"HTTP_ACCEPT": "application/json"}
    decision = {"what": "decide", "hit": hit.pk, "decision": "keep", "everywhere": "1"}
    assert client.post(address, decision, **accept).json() == {"n": 2}
    assert client.post(address, {**decision, "decision": "burn"}, **accept).status_code == 400
    client.post(address, {"what": "rest", "kind": "email"})
    assert "Finish the review" in client.get(address).content.decode()
    client.post(address, {"what": "finish"})
    summary = summarise_redaction(study)
    assert summary is not None
    assert summary.is_finished
    assert "<mark>" not in client.get(address).content.decode()
    assert client.get(f"{address}?decided=1&kind=phone").content.decode().count("<mark>") == 2
    reader = signed_in(Right.READ, username="reader")
    assert 'name="decision"' not in reader.get(f"{address}?decided=1").content.decode()
    assert reader.post(address, decision).status_code == 403


def test_the_command_writes_redacted_tables(study: Study, tmp_path: Path) -> None:
    make_staff()
    file = tmp_path / "m.jsonl"
    call_command("export", study=study.key, what="messages", output=file, redacted=True)
    texts = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
    assert "Mine is [EMAIL]." in texts, "without a search, placeholders have no number"


@pytest.mark.parametrize(
    ("n_names", "model", "words"),
    [
        (0, "", "Names: not searched."),
        (3, "", "Names: from a list of 3."),
        (0, "en_core_web_sm", "Names: with the model en_core_web_sm."),
        (3, "en_core_web_sm", "Names: from a list of 3, and with the model en_core_web_sm."),
    ],
)
def test_the_summary_says_how_names_were_searched(n_names: int, model: str, words: str) -> None:
    assert words in RedactionSummary(1, {}, n_names, model, True).describe()
