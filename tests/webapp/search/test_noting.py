"""Stars, tags and notes at conversations, and searches kept by name."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.selectors import study_dimensions
from webapp.search.fields import Numbers
from webapp.search.models import Note, SavedSearch
from webapp.search.pagination import Listing
from webapp.search.query import parse_query
from webapp.search.selectors import notes_in
from webapp.search.services import note_add, search_save, star_set, tag_add
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import erasure_counts, participants_erase
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db

NOTES = {"notes": "1"}


@pytest.fixture
def chat() -> Conversation:
    """Return a rated chat; its study has another one."""
    study = make_study("noted")
    make_conversation(study, n_exchanges=3)
    chat = make_conversation(study, n_exchanges=3)
    make_rating(chat, quality=2)
    return chat


def make_run() -> SelfPlayRun:
    run = run_create(bots=["eliza", "parrot"], n_conversations=2, n_turns=4, seed=1)
    run_job(run)
    return run


def found(study: Study, line: str) -> set[object]:
    query = parse_query(line, Numbers(study_dimensions(study)), study=study)
    return {row.pk for row in Listing(study.conversations.all(), query, study).take(None, 10)}


def test_a_reader_stars_tags_and_notes(reader: Client, chat: Conversation) -> None:
    url = reverse("dashboard:conversation_note", args=[chat.pk])
    back = reverse("dashboard:study_conversations", args=["noted"]) + f"?chat={chat.pk}"

    def post(**data: object) -> None:
        answer = reader.post(url, {**data, "next": back})
        assert (answer.status_code, answer.url) == (302, back)  # type: ignore[attr-defined]

    for _twice in range(2):
        post(what="star")
        post(what="tag", text="  Off   Topic ")
    post(what="note", text="<i>It never answered.</i>")
    assert [(note.kind, note.text) for note in Note.objects.all()] == [
        ("star", ""),
        ("tag", "off topic"),
        ("note", "<i>It never answered.</i>"),
    ]
    page = reader.get(back)
    html = page.content.decode()
    assert "&lt;i&gt;It never answered.&lt;/i&gt;" in html
    row = next(row for row in page.context["page"].rows if row.conversation == chat)
    assert (row.tags, row.is_starred) == (("off topic",), True)
    assert chat.study is not None
    for line in ("is:starred", 'tag:"off topic"', "is:noted", "tag:other,x is:unrated", "is:tagged"):
        expected = set() if "other" in line else {chat.pk}
        assert found(chat.study, line) == expected, line
    assert len(found(chat.study, "-is:starred")) == 1

    post(what="unstar")
    for note in Note.objects.all():
        post(what="remove", note=note.pk)
    assert not Note.objects.exists()
    post(what="remove", note="x")


@pytest.mark.parametrize("text", ["", "\u200b", "a,b", 'say "it"', "x" * 41])
def test_a_tag_that_no_search_could_name_is_refused(reader: Client, chat: Conversation, text: str) -> None:
    with pytest.raises(Refused, match="is not a valid tag"):
        tag_add(conversation=chat, text=text, author=None)
    url = reverse("dashboard:conversation_note", args=[chat.pk])
    page = reader.post(url, {"what": "tag", "text": text}, follow=True)
    assert "is not a valid tag" in page.content.decode()


def test_nobody_is_led_elsewhere(reader: Client, chat: Conversation) -> None:
    url = reverse("dashboard:conversation_note", args=[chat.pk])
    for elsewhere in ("https://example.org/", "//example.org", "javascript:alert(1)"):
        answer = reader.post(url, {"what": "star", "next": elsewhere})
        assert answer.url == reverse("dashboard:conversation", args=[chat.pk])  # type: ignore[attr-defined]


def test_notes_are_exported_and_go_with_the_person(chat: Conversation) -> None:
    author = make_staff(Right.READ, username="u")
    star_set(conversation=chat, is_starred=True, author=author)
    tag_add(conversation=chat, text="repeats", author=author)
    note_add(conversation=chat, text="Look again.", author=author)
    assert chat.study is not None
    exporter = exporter_get("reader_notes")
    columns = [column.name for column in exporter.columns(chat.study, ExportOptions())]
    rows = [dict(zip(columns, row, strict=True)) for row in exporter.rows(chat.study, ExportOptions())]
    assert [(row["conversation"], row["kind"], row["text"], row["author"]) for row in rows] == [
        (str(chat.pk), "star", "", "u"),
        (str(chat.pk), "tag", "repeats", "u"),
        (str(chat.pk), "note", "Look again.", "u"),
    ]
    person = Participant.objects.filter(pk=chat.participant_id)
    assert erasure_counts(person)["reader_notes"] == 3
    participants_erase(participants=person)
    assert not Note.objects.exists()


def test_two_conversations_stand_side_by_side(reader: Client, chat: Conversation) -> None:
    other = chat.study.conversations.exclude(pk=chat.pk).get()
    listed = reverse("dashboard:study_conversations", args=["noted"])
    page = reader.get(listed, {"hold": str(other.pk), "q": "message sort:quality"})
    both = reverse("dashboard:side_by_side", args=[other.pk, chat.pk])
    assert f'href="{both}?q=message+sort:quality"' in page.content.decode()
    answer = reader.get(both, {"q": "message"})
    html = answer.content.decode()
    assert [row.pk for row, _read in answer.context["sides"]] == [other.pk, chat.pk]
    assert html.count("<mark>message</mark>") == 6
    assert html.index(f"<code>{other.pk.hex[:4]}") < html.index(f"<code>{chat.pk.hex[:4]}")
    nobody = reverse("dashboard:side_by_side", args=[other.pk, "0" * 8 + "-0000-0000-0000-" + "0" * 12])
    assert reader.get(nobody).status_code == 404


def test_a_search_is_kept_by_name_for_one_person(reader: Client, chat: Conversation) -> None:
    url = reverse("dashboard:study_keep", args=["noted"])
    listed = reverse("dashboard:study_conversations", args=["noted"])
    line = "quality<3 sort:quality"
    for name in ("Worst", " Worst "):
        reader.post(url, {"name": name, "q": line, "columns": "quality,turns"})
    search = SavedSearch.objects.get()
    assert (search.name, search.line, search.columns) == ("Worst", line, "quality,turns")
    page = flat(reader.get(listed).content.decode())
    assert 'href="?q=quality%3C3+sort:quality&amp;columns=quality,turns">Worst</a>' in page
    other = signed_in(Right.READ, username="other")
    assert "Worst" not in other.get(listed).content.decode()
    other.post(url, {"what": "forget", "name": " Worst "})
    assert SavedSearch.objects.exists(), "somebody else's"
    reader.post(url, {"what": "forget", "name": " Worst "})
    assert not SavedSearch.objects.exists()
    assert "There is no search to save" in reader.post(url, {"name": "x"}, follow=True).content.decode()


def test_a_kept_search_for_a_metric_that_is_gone_is_shown_as_such(reader: Client, chat: Conversation) -> None:
    user = make_staff(Right.READ, username="owner")
    reader.force_login(user)
    assert chat.study is not None
    search_save(source=chat.study, owner=user, name="Old", line="gone_metric>0.5")
    page = reader.get(reverse("dashboard:study_conversations", args=["noted"]))
    assert page.status_code == 200
    html = page.content.decode()
    assert "Old: no longer valid" in html
    assert "There is no field “gone_metric” here." in html
    assert len(page.context["page"].rows) == 2


def test_a_run_keeps_searches_of_its_own(reader: Client, chat: Conversation) -> None:
    run, other = make_run(), run_create(bots=["parrot"], n_conversations=2, n_turns=4, seed=1)
    url = reverse("dashboard:run_keep", args=[run.pk])
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    for line in ("bot:parrot", "bot:eliza sort:-exchanges"):
        answer = reader.post(url, {"name": "Best", "q": line})
        assert (answer.status_code, answer.url) == (302, listed)  # type: ignore[attr-defined]
    search = SavedSearch.objects.get()
    assert (search.run, search.study, search.line) == (run, None, "bot:eliza sort:-exchanges")
    assert 'href="?q=bot:eliza+sort:-exchanges">Best</a>' in flat(reader.get(listed).content.decode())
    others = [
        reverse("dashboard:run_conversations", args=[other.pk]),
        reverse("dashboard:study_conversations", args=["noted"]),
    ]
    assert all(">Best<" not in reader.get(one).content.decode() for one in others)
    reader.post(reverse("dashboard:study_keep", args=["noted"]), {"what": "forget", "name": search.name})
    assert SavedSearch.objects.exists(), "it is no search of the study"
    reader.post(url, {"what": "forget", "name": search.name})
    assert not SavedSearch.objects.exists()


def test_what_a_search_finds_in_a_run_leads_to_its_export(reader: Client) -> None:
    run = make_run()
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    page = reader.get(listed, {"q": "bot:eliza"}).content.decode()
    url = reverse("dashboard:run", args=[run.pk])
    assert f'href="{url}?q=bot:eliza&amp;include_failed=on#export"' in page
    page = reader.get(url, {"q": "bot:eliza"}).content.decode()
    assert 'name="q" value="bot:eliza"' in page
    sent = reader.get(
        reverse("dashboard:run_export", args=[run.pk]), {"what": "conversations", "format": "jsonl", "q": "bot:eliza"}
    )
    lines = b"".join(sent.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert all('"eliza"' in line for line in lines)
    # Without a search the form has none.
    assert 'name="q"' not in reader.get(url).content.decode()


def links(html: str) -> list[str]:
    """Return the addresses that the page of tags and notes leads to, below its head."""
    main = html[html.index('id="c-notes"') :]
    return [unescape(href) for href in re.findall(r'href="([^"]+)"', main)]


def test_all_tags_and_notes_lead_to_the_searches_that_find_them(reader: Client, chat: Conversation) -> None:
    author = make_staff(Right.READ, username="lee")
    other = chat.study.conversations.exclude(pk=chat.pk).get()
    make_conversation(make_study("elsewhere"), n_exchanges=1)
    elsewhere = Conversation.objects.get(study__key="elsewhere")
    for one in (chat, other, elsewhere):
        tag_add(conversation=one, text="odd <i>one</i>", author=author)
    star_set(conversation=other, is_starred=True, author=author)
    note_add(conversation=chat, text="<b>Look</b> again.", author=author)
    note_add(conversation=other, text="Of nobody.", author=None)
    note_add(conversation=elsewhere, text="Not of this study.", author=author)
    url = reverse("dashboard:study_conversations", args=["noted"])
    page = reader.get(url, NOTES)
    html = page.content.decode()
    assert "&lt;b&gt;Look&lt;/b&gt; again." in html
    assert "odd &lt;i&gt;one&lt;/i&gt;" in html
    assert "Not of this study" not in html
    assert html.index("Of nobody.") < html.index("author unknown") < html.index("Look&lt;/b&gt;")
    assert html.index("Look&lt;/b&gt;") < html.index(">lee<")
    assert [(tag.text, tag.n) for tag, _href in page.context["noted_tags"]] == [("odd <i>one</i>", 2)]
    results = {href: reader.get(href).context for href in links(html)}
    assert [(result["bench"].line, result["page"].total) for result in results.values()] == [
        ("is:noted", 2),
        ("is:noted", 2),
        ("is:starred", 1),
        ('tag:"odd <i>one</i>"', 2),
    ]
    opened = [result["pane"].conversation for result in results.values()]
    assert opened[:3] == [other, chat, other]


def test_tags_and_notes_come_page_by_page(reader: Client, chat: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.dashboard.views.notes.MOST_TAGS", 2)
    monkeypatch.setitem(notes_in.__kwdefaults__, "size", 2)
    for name in "abcde":
        tag_add(conversation=chat, text=name, author=None)
        note_add(conversation=chat, text=name, author=None)
    url = reverse("dashboard:study_conversations", args=["noted"])
    address, tags, notes = "", [], []
    for _page in range(3):
        context = reader.get(url + (address or "?notes=1")).context
        tags += [tag.text for tag, _href in context["noted_tags"]]
        address = context["next_tags"]
    assert (tags, address) == (list("abcde"), "")
    for _page in range(3):
        context = reader.get(url + (address or "?notes=1")).context
        assert context["n_notes"] == 5
        notes += [note.text for note, _bot, _href in context["notes"]]
        address = context["next_notes"]
    assert (notes, address) == (list("edcba"), "")
    # Neither list turns the other one back, and what is no key is no error.
    newest = str(Note.objects.get(kind="note", text="d").pk)
    both = reader.get(url, {**NOTES, "tags": "b", "before": newest}).context
    assert "tags=b" in both["next_notes"]
    assert f"before={newest}" in both["first_tags"]
    assert [tag.text for tag, _href in both["noted_tags"]] == ["c", "d"]
    assert [note.text for note, _bot, _href in both["notes"]] == ["c", "b"]
    assert reader.get(url, {**NOTES, "tags": "~", "before": "x"}).status_code == 200


def test_scripted_participants_are_left_out_of_tags_and_notes_as_of_the_list(
    reader: Client, chat: Conversation
) -> None:
    assert chat.study is not None
    Conversation.objects.filter(pk=chat.pk).update(is_synthetic=True)
    note_add(conversation=chat, text="Scripted.", author=None)
    url = reverse("dashboard:study_conversations", args=["noted"])
    assert reader.get(url, NOTES).context["n_notes"] == 0
    counted = reader.get(url, {**NOTES, "synthetic": "1"})
    assert counted.context["n_notes"] == 1
    [_note, _bot, href] = counted.context["notes"][0]
    assert reader.get(href).context["page"].total == 1


def test_more_notes_ask_no_more_of_the_database(
    reader: Client, chat: Conversation, django_assert_max_num_queries: Any
) -> None:
    url = reverse("dashboard:study_conversations", args=["noted"])
    counts = []
    for n in (1, 9):
        for number in range(n):
            user = make_staff(Right.READ, username=f"{n}/{number}")
            note_add(conversation=chat, text=str(number), author=user)
            tag_add(conversation=chat, text=f"{n}/{number}", author=user)
        with django_assert_max_num_queries(40) as asked:
            reader.get(url, NOTES)
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_notes_of_a_run_are_listed_too(reader: Client, client: Client) -> None:
    run = make_run()
    row = Conversation.objects.filter(selfplay__run=run, bot__bot_id="parrot").first()
    assert row is not None
    tag_add(conversation=row, text="loops", author=None)
    note_add(conversation=row, text="Says it twice.", author=None)
    url = reverse("dashboard:run_conversations", args=[run.pk])
    html = reader.get(url, NOTES).content.decode()
    assert "Says it twice." in html
    totals = [reader.get(href).context["page"].total for href in links(html)]
    assert totals == [1, 1]
    assert 'href="?notes=1"' in reader.get(url).content.decode()
    client.logout()
    for address in (url, reverse("dashboard:study_conversations", args=["noted"])):
        assert client.get(address).status_code == 302
