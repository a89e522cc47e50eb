"""The licence check refuses what it must."""

import pytest

from tests.checks.licences import licence_allowed, refusals


@pytest.mark.parametrize(
    "expression",
    [
        "MIT",
        "BSD License",
        "ISC License (ISCL)",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "Apache Software License; MIT License",
        "GPL-3.0-only OR MIT",
        "BSD-3-Clause AND (MIT OR GPL-2.0-only)",
    ],
)
def test_free_licences_pass(expression: str) -> None:
    assert licence_allowed(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *("UNKNOWN", "", "GPL-3.0-or-later", "GNU General Public License v3 (GPLv3)", "AGPL-3.0-only"),
        *("MIT AND GPL-2.0-only", "MIT License; GNU General Public License (GPL)", "Other/Proprietary License"),
    ],
)
def test_others_fail(expression: str) -> None:
    assert not licence_allowed(expression)


def test_refusals_name_the_package_and_the_reason() -> None:
    result = refusals([("good", "MIT"), ("viral", "GPL-3.0-only"), ("mute", "UNKNOWN")])
    assert [(r.package, r.why) for r in result] == [("viral", "not on the allow-list"), ("mute", "no licence is known")]


def test_exceptions_are_by_name_and_not_by_licence() -> None:
    lgpl = "GNU Library or Lesser General Public License (LGPL)"
    assert refusals([("psycopg2-binary", lgpl)]) == []
    assert [r.package for r in refusals([("other", lgpl)])] == ["other"]


def test_a_package_without_metadata_is_known_by_its_licence_file() -> None:
    assert refusals([("skeletoken", "UNKNOWN")]) == []
