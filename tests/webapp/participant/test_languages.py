"""Several languages in one study: chosen by the link or on the first page, kept from consent to the export."""

import json
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from chatbots.validation import ValuesError
from tests.builders import exchange, make_staff, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from tests.webapp.participant.test_access import spoken
from tests.webapp.participant.test_socket import Page
from tests.webapp.transfer.test_package import packed
from webapp.conversations.filtering import withheld_notice
from webapp.conversations.models import Conversation
from webapp.conversations.reply_pipeline import reply_begin
from webapp.conversations.selectors import conversation_value
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.jobs.selectors.metrics import conversation_languages
from webapp.studies.models import Participant, Study
from webapp.studies.settings import texts_first
from webapp.studies.study_file import study_file_read
from webapp.studies.versions import study_edit
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db
AR, DE, EN = ("ar", "rtl"), ("de", "ltr"), ("en-gb", "ltr")
LINK = re.compile(r'<a href="(\?[^"]*)" lang="(\w+)"')


def make_spoken(key: str = "s", **fields: Any) -> Study:
    """Make a study in English, German and Arabic with a title of its own."""
    return make_study(key, languages=["de", "en", "ar"], title="About tea", min_exchanges=1, **fields)


def page_of(response: Any) -> str:
    assert response.status_code == 200
    return response.content.decode()


def exported(study: Study) -> list[dict[str, Any]]:
    table, options = exporter_get("participants"), ExportOptions(include_private=True)
    names = [column.name for column in table.columns(study, options)]
    return [dict(zip(names, row, strict=True)) for row in table.rows(study, options)]


def test_the_link_says_the_language_and_it_holds_for_all_pages(browser: Client) -> None:
    study = make_spoken()
    first = browser.get("/s/s/?lang=de")
    assert spoken(first) == DE
    own, german = (texts_first(code)["texts"]["instructions_text"].split("\n")[0] for code in ("en", "de"))
    assert escape(german.rstrip(".")) in page_of(first)
    assert escape(own.rstrip(".")) not in page_of(first)
    assert "About tea" in page_of(first), "an own text stays"
    conversation = begin(browser, query="?lang=de")
    person = conversation.participant
    assert person.language == "de"
    assert german in person.consent.texts["instructions_text"], "they agreed to what they read"
    chat(conversation, 1)
    assert spoken(browser.get(f"/chat/{conversation.pk}/?lang=ar")) == DE, "a link changes nothing later"
    rating = browser.get(f"/chat/{conversation.pk}/rate/")
    assert spoken(rating) == DE
    assert "Wie gut" in page_of(rating), "questions of Confab follow"
    assert spoken(browser.get("/s/s/?lang=ar")) == DE, "so does the first page, and it offers no choice"
    assert not LINK.findall(page_of(browser.get("/s/s/")))
    assert spoken(browser.get("/s/s/messages/")) == DE
    assert [row["language"] for row in exported(study)] == ["de"]
    study_edit(study=study, languages=[])
    assert spoken(browser.get(f"/chat/{conversation.pk}/")) == DE, "they began in a version that has it"
    assert spoken(Client().get("/s/s/?lang=de")) == EN


def test_the_first_page_lets_choose_and_keeps_the_link(browser: Client) -> None:
    make_spoken()
    page = page_of(browser.get("/s/s/?PROLIFIC_PID=p1&SESSION_ID=x"))
    links = {code: address.replace("&amp;", "&") for address, code in LINK.findall(page)}
    assert list(links) == ["ar", "de", "en"]
    assert spoken(browser.get(f"/s/s/{links['ar']}")) == AR
    conversation = begin(browser, query=links["ar"])
    assert (conversation.participant.language, conversation.participant.external_id) == ("ar", "p1")
    again = Client().get("/s/s/?PROLIFIC_PID=p1&SESSION_ID=x")
    assert spoken(again) == AR, "known by the platform's id, too"
    make_study("plain", language="de")
    assert spoken(browser.get("/s/plain/?lang=en")) == DE


def test_who_declines_reads_so_in_their_language_and_may_come_back_in_another(browser: Client) -> None:
    make_spoken()
    query = "?PROLIFIC_PID=p1&SESSION_ID=x"
    response = post(browser, "/s/s/decline/", _entry=entry_field(browser.get(f"/s/s/{query}&lang=de")))
    assert response.status_code == 302
    assert spoken(browser.get(response.url)) == DE
    page = browser.get(f"/s/s/{query}&lang=ar&again=1")
    assert spoken(page) == AR
    assert post(browser, "/s/s/start/", consent="on", _entry=entry_field(page)).status_code == 302
    person = Participant.objects.get()
    assert person.language == "ar"
    assert person.consent.texts["instructions_text"] == texts_first("ar")["texts"]["instructions_text"]


@pytest.mark.django_db(transaction=True)
async def test_socket_and_withheld_replies_speak_it() -> None:
    def started() -> tuple[str, str]:
        make_spoken()
        browser = Client(enforce_csrf_checks=True)
        result = begin(browser, query="?lang=de")
        return str(result.pk), "; ".join(f"{c.key}={c.value}" for c in browser.cookies.values())

    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await page.says("x" * 600, str(uuid.uuid4()))
    frame = await page.hears()
    assert frame["type"] == "error"
    assert "Zeichen" in frame["message"]
    await page.says("hello", str(uuid.uuid4()))
    assert (await page.hears())["type"] == "turn"
    due = await in_database(reply_begin)(uuid.UUID(conversation_id), uuid.uuid4())
    assert due is not None
    assert withheld_notice(due.values) == "Diese Antwort wurde gesperrt."
    await page.socket.disconnect()


def test_package_datasheet_and_metrics_know_the_language(tmp_path: Any, browser: Client) -> None:
    study = make_spoken()
    conversation = begin(browser, query="?lang=de")
    exchange(conversation, "hello there", "hi")
    chats = [conversation_value(Conversation.objects.get(pk=conversation.pk))]
    assert conversation_languages(chats) == {str(conversation.pk): "de"}
    said = {entry.question.number: entry.from_study for entry in datasheet_of(study)}
    assert said["2.4"].startswith(("English, ", "German"))
    path = tmp_path / "s.zip"
    path.write_bytes(packed(study))
    assert import_conversations(path, study_key="again").skipped == []
    again = Study.objects.get(key="again")
    assert again.values.texts.languages == ("en", "de", "ar")
    assert [row["language"] for row in exported(again)] == ["de"]


@pytest.mark.parametrize(
    ("languages", "error"),
    [
        (["en", "tlh"], r"texts\.languages\[1\].*tlh"),
        (["en", "de", "de"], r"texts\.languages .*contains de twice"),
        (["de", "ar"], r"texts\.languages .*must include en, the study's own language"),
        ([["en"]], r"texts\.languages\[0\]"),
        ("de", r"texts\.languages"),
    ],
)
def test_languages_that_cannot_be_are_told_with_their_path(languages: Any, error: str) -> None:
    plain = {"confab_study": 1, "key": "s", "name": "s", "protocol": "chat", "texts": {"languages": languages}}
    with pytest.raises(ValuesError, match=error):
        study_file_read(json.dumps(plain))


def test_the_builder_takes_them_and_says_what_stays_as_written() -> None:
    make_spoken(state=Study.State.DRAFT)
    client = Client()
    client.force_login(make_staff(*Right))
    texts = page_of(client.get("/dashboard/studies/s/build/texts/"))
    assert len(re.findall(r'name="languages" value="\w+"[^>]* checked', texts)) == 3
    check = page_of(client.get("/dashboard/studies/s/build/check/"))
    assert "Participants can choose among English, German and Arabic." in check
    assert "Your own lines without a translation are shown as written: 1 into German, 1 into Arabic." in check
    assert spoken(client.get("/preview/s/consent/?lang=de")) == DE


AGE = {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["Under 30", "30 or older"]}
QUIZ = {
    "question": "Who replies?",
    "options": ["A person", "A program"],
    "right": "A program",
    "why": "It is no person.",
}
LEVELS = [
    {"key": key, "scenario": "You travel.", "opening": "Where to?", "bot_prompt": f"Be {key}."}
    for key in ("kind", "curt")
]
GERMAN = {
    "About tea": "Über Tee",
    "How old are you?": "Wie alt sind Sie?",
    "Under 30": "Unter 30",
    "30 or older": "30 oder älter",
    "Who replies?": "Wer antwortet?",
    "A person": "Ein Mensch",
    "A program": "Ein Programm",
    "It is no person.": "Es ist kein Mensch.",
    "You travel.": "Sie reisen.",
    "Where to?": "Wohin?",
}


def make_translated(**fields: Any) -> Study:
    """Make a study with every kind of text of its own."""
    factors = [{"key": "story", "levels": LEVELS}]
    return make_spoken(questions=[AGE], quiz_questions=[QUIZ], factors=factors, bots=["eliza"], **fields)


def test_own_lines_are_translated_in_the_builder() -> None:
    study = make_translated(state=Study.State.DRAFT)
    client = Client()
    client.force_login(make_staff(*Right))
    address = "/dashboard/studies/s/build/texts/"
    page = page_of(client.get(address))
    lines = dict(re.findall(r'name="(translations_de_\w+)"[^>]* aria-label="Deutsch: ([^"]+)"', page))
    assert set(lines.values()) == set(GERMAN), "each once, none of Confab's"
    form = client.get(address).context["form"]
    sent = {field.html_name: field.value() for field in form if field.name != "translations"}
    sent = {name: value for name, value in sent.items() if value not in (None, False)}
    sent |= {name: f" {GERMAN[line]} " for name, line in lines.items() if line != "Where to?"}
    assert client.post(address, sent).status_code == 302
    study.refresh_from_db()
    expected = {line: words for line, words in GERMAN.items() if line != "Where to?"}
    assert study.values.texts.translations == {"de": expected}
    check = page_of(client.get("/dashboard/studies/s/build/check/"))
    assert "Your own lines without a translation are shown as written: 1 into German, 10 into Arabic." in check
    assert "Über Tee" in page_of(client.get("/preview/s/consent/?lang=de"))
    assert client.post(address, {**sent, "languages": ["en", "ar"]}).status_code == 302
    study.refresh_from_db()
    assert study.values.texts.translations == {}, "German is no longer offered"


def test_participants_read_them_and_answers_are_stored_as_written(browser: Client) -> None:
    make_translated(translations={"de": GERMAN})
    first = page_of(browser.get("/s/s/?lang=de"))
    assert "Über Tee" in first
    begun = post(browser, "/s/s/start/", consent="on", _entry=entry_field(browser.get("/s/s/?lang=de")))
    task = begun.url.removesuffix("/quiz/")
    conversation = Conversation.objects.get()
    assert [turn.text for turn in conversation.turns.all()] == ["Wohin?"]
    quiz = page_of(browser.get(f"{task}/quiz/"))
    assert "Wer antwortet?" in quiz
    assert re.search(r'value="A program"[^>]*>\s*<span dir="auto">Ein Programm', quiz)
    hidden = dict(re.findall(r'name="(_quiz|_attempt)" value="([^"]*)"', quiz))
    post(browser, f"{task}/quiz/", **hidden, quiz_1="A person")
    again = page_of(browser.get(f"{task}/quiz/"))
    assert "Es ist kein Mensch." in again
    hidden = dict(re.findall(r'name="(_quiz|_attempt)" value="([^"]*)"', again))
    assert post(browser, f"{task}/quiz/", **hidden, quiz_1="A program").status_code == 302
    asked = page_of(browser.get(f"{task}/questions/"))
    assert "Wie alt sind Sie?" in asked
    assert re.search(r'value="Under 30"[^>]*>\s*<span dir="auto">Unter 30', asked)
    name = re.search(r'name="(\w*age)"', asked)
    assert name is not None
    assert post(browser, f"{task}/questions/", **{name[1]: "Under 30"}).status_code == 302
    assert "Under 30" in exported(Study.objects.get())[0].values()
    assert "Sie reisen." in page_of(browser.get(f"/chat/{conversation.pk}/"))


@pytest.mark.parametrize(
    ("translations", "error"),
    [
        ({"fr": {"a": "b"}}, r"texts\.translations.*fr"),
        ({"en": {"a": "b"}}, r"texts\.translations .*en"),
        ({"de": {"a": ""}}, r"texts\.translations\.de\.a"),
        ({"de": {"a": "x" * 4001}}, r"texts\.translations\.de\.a"),
        ({"de": "b"}, r"texts\.translations\.de"),
    ],
)
def test_translations_that_cannot_be_are_told_with_their_path(translations: Any, error: str) -> None:
    texts = {"languages": ["en", "de"], "translations": translations}
    plain = {"confab_study": 1, "key": "s", "name": "s", "protocol": "chat", "texts": texts}
    with pytest.raises(ValuesError, match=error):
        study_file_read(json.dumps(plain))
