"""Tables of the conversations that a search finds: by the command, by the page and by a worker."""

import csv
import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests.builders import exchange, make_conversation, make_rating, make_staff, make_study
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, exporter_counts, exporter_get, exporters

QUALITIES = [2, 6, 3, 7]


@pytest.fixture(scope="module")
def searched_study(rows_of_file: None) -> Study:
    """Make a study of four rated conversations, of which two speak of tomatoes; one more is scripted."""
    study = make_study("searched")
    for number, quality in enumerate(QUALITIES):
        chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}")
        if number < 2:
            exchange(chat, "I like tomatoes", "Do you cook?")
        make_rating(chat, quality=quality)
    make_conversation(study, n_exchanges=3, is_synthetic=True)
    return study


@pytest.fixture
def study(searched_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=searched_study.pk)


def numbers_of(study: Study, ids: set[str]) -> set[int]:
    rows = Conversation.objects.filter(study=study).order_by("created_at")
    return {i for i, pk in enumerate(rows.values_list("pk", flat=True)) if str(pk) in ids}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tomatoes", {0, 1}),
        ("quality>=6", {1, 3}),
        ("tomatoes sort:quality limit:1", {0}),
        ("sort:-quality limit:2", {1, 3}),
        ("flags>0", set()),
        ("", {0, 1, 2, 3}),
    ],
)
@pytest.mark.parametrize("what", ["conversations", "ratings", "messages"])
def test_a_command_writes_what_a_search_finds(
    study: Study, tmp_path: Path, what: str, line: str, expected: set[int]
) -> None:
    file = tmp_path / "out.csv"
    options = {"study": study.key, "what": what, "format": "csv", "search": line}
    call_command("export", output=file, **options)
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    key = "dialogue_id" if what == "conversations" else "conversation"
    assert numbers_of(study, {row[key] for row in rows}) == expected
    counted = exporter_counts(study, ExportOptions(search=line))
    assert counted[what] == len(rows)


@pytest.mark.parametrize("name", [exporter.name for exporter in exporters if hasattr(exporter, "is_searched")])
def test_a_search_that_finds_nothing_leaves_every_table_empty(study: Study, name: str) -> None:
    assert list(exporter_get(name).rows(study, ExportOptions(search="xyzzy"))) == []


def test_a_sample_is_the_one_of_the_workbench(study: Study, client: Client) -> None:
    client.force_login(make_staff(Right.READ))
    for line in ("sample:2 seed:1", "sample:2 seed:4", "sample:2 seed:5"):
        response = client.get(reverse("dashboard:study_conversations", args=[study.key]), {"q": line})
        listed = {str(row.conversation.pk) for row, _slot, _href in response.context["rows"]}
        address = response.context["export_href"]
        assert address.startswith(reverse("dashboard:study_export", args=[study.key]))
        assert address in response.content.decode().replace("&amp;", "&")
        page = client.get(address, follow=True)
        assert f'value="{line}"' in page.content.decode()
        assert {e.name: n for e, n in page.context["tables"]}["conversations"] == 2
        answer = client.get(f"{address}&what=conversations&format=csv")
        text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
        assert {row["dialogue_id"] for row in csv.DictReader(text.splitlines())} == listed


@pytest.mark.parametrize(
    ("what", "line", "why"),
    [
        ("conversations", "qualty>3", "Did you mean quality"),
        ("ratings", "flags>many", "“many” is not a number"),
        ("participants", "tomatoes", "can be used with: chat_ratings"),
    ],
)
def test_what_cannot_be_searched_is_told(
    study: Study, client: Client, tmp_path: Path, what: str, line: str, why: str
) -> None:
    client.force_login(make_staff(Right.READ))
    url = reverse("dashboard:study_export", args=[study.key])
    answers = [
        client.get(url, {"what": what, "format": "csv", "q": line}),
        client.post(url, {"what": what, "format": "csv", "q": line}),
    ]
    for answer in answers:
        assert answer.status_code == 400
        assert why in answer.content.decode()
    with pytest.raises(CommandError, match=re.escape(why)):
        call_command("export", study=study.key, what=what, format="csv", search=line, output=tmp_path / "x")
    assert not (tmp_path / "x").exists()
