"""The check of advisories by its stored list."""

from tests.checks.advisories import vulnerable


def test_an_old_version_is_named_with_its_advisory() -> None:
    assert vulnerable([("PyYAML", "5.3"), ("h11", "0.16.0"), ("unknown", "1")]) == [
        "PyYAML 5.3: CVE-2020-14343, mended in 5.4"
    ]
