"""Keys derived from names."""

import pytest

from webapp.core.keys import first_free_key, key_from_name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Zweite Studie: Größe", "zweite-studie-groesse"),
        ("Gro\u0308\u00dfe", "groesse"),  # with a combining mark
        ("Łódź, Ærø & Málaga", "lodz-aeroe-malaga"),
        ("L’Œuvre, Işık", "loeuvre-isik"),
        ("snake_case Name", "snake_case-name"),
        ("研究", ""),
        ("-- x --", "x"),
        ("abc-def", "abc"),
    ],
)
def test_a_key_spells_out_what_ascii_lacks(name: str, key: str) -> None:
    assert key_from_name(name, 4 if name == "abc-def" else 60) == key


def test_a_taken_key_gets_the_lowest_free_number() -> None:
    assert first_free_key("a", ()) == "a"
    assert first_free_key("a", {"a", "a-2", "a-4"}) == "a-3"
