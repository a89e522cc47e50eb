"""A data package for somebody who lacks a right: without the tables that ask for it, and it says so."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

import confab
from evaluation.package import LEFT_OUT, PackageError
from tests.builders import make_conversation, make_rating, make_study
from webapp.core.rights import Right
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.import_file import import_conversations
from webapp.transfer.package.contents import package_pieces

pytestmark = pytest.mark.django_db


def test_what_was_left_out_is_said_and_no_study_is_made_of_the_rest(tmp_path: Path) -> None:
    study = make_study("shop", code_rated="THANKS-7")
    make_rating(make_conversation(study, n_exchanges=3), quality=5)
    whole, part = (
        b"".join(package_pieces(study, ExportOptions(), rights=rights)) for rights in ([*Right], [Right.READ])
    )
    assert whole == b"".join(package_pieces(study, ExportOptions()))
    with zipfile.ZipFile(io.BytesIO(part)) as archive:
        names = archive.namelist()
        described = json.loads(archive.read("datapackage.json"))
        told = archive.read("README.md").decode()
        assert b"THANKS-7" not in b"".join(map(archive.read, names))
    assert "data/participants.csv" not in names
    assert described[LEFT_OUT] == [{"table": "participants", "right": "pay"}]
    assert "the table `participants`, for the requester does not have the right `pay`" in told
    assert LEFT_OUT not in json.loads(zipfile.ZipFile(io.BytesIO(whole)).read("datapackage.json"))

    path = tmp_path / "part.zip"
    path.write_bytes(part)
    read = confab.read(path)
    assert (len(read), read.left_out) == (1, ("participants",))
    with pytest.raises(PackageError, match="lacks participants, for its maker"):
        import_conversations(path, study_key="again")
