"""Licence, source and losses of imported files, on pages, in the datasheet and in the audit log."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from tests.builders import signed_in
from webapp.audit.models import PendingEntry
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.models import ImportedFile, ImportMapping

pytestmark = pytest.mark.django_db

CHAT = {
    "conversation_id": "a1",
    "model": "vicuna",
    "language": "English",
    "conversation": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Hello!"}],
}


def test_the_origin_of_a_file_is_shown_where_its_data_are_read() -> None:
    client = signed_in(Right.RUN, Right.READ)
    file = SimpleUploadedFile("lmsys.jsonl", (json.dumps(CHAT) + "\n").encode())
    address = client.post("/dashboard/imports/", {"file": file})["Location"]
    fields = {"study": "arena", "licence": "CC-BY-NC-4.0", "source": "doi:10.1/x", "save_as": "ours", "_import": "1"}
    page = client.post(address, fields, follow=True).content.decode()
    origin = ImportedFile.objects.get()
    assert origin.losses
    overview = client.get(reverse("dashboard:study", args=["arena"])).content.decode()
    for text in (page, overview):
        assert "CC-BY-NC-4.0" in text
        assert "doi:10.1/x" in text
        assert next(iter(origin.losses)).replace("'", "&#x27;") in text
    entries = {entry.question.number: entry for entry in datasheet_of(Study.objects.get(key="arena"))}
    selection = entries["3.1.2"].from_study
    assert "imported from lmsys.jsonl (licence: CC-BY-NC-4.0, source: doi:10.1/x)" in selection
    assert "Not imported (" in selection
    saved = ImportMapping.objects.get()
    entry = PendingEntry.objects.get(action="mapping.save")
    assert entry.object_id == saved.pk
