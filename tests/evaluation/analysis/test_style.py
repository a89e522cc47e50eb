"""Length and markup of replies as controls."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.pairwise_preference import CONTROLS, n_markup, style_controls


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Plain words, 2 * 3 and snake_case - nothing else.", 0),
        ("# Plan\n\n- first\n- second\n1. third", 4),
        ("This is **bold**, `code` and a [link](https://example.org).", 3),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 3),
        ("```\nx = 1\n```", 2),
        ("#hashtag", 0),
        ("", 0),
    ],
)
def test_markup_is_counted(text: str, n: int) -> None:
    assert n_markup(text) == n


def test_a_unit_is_a_doubling() -> None:
    found = style_controls(
        [["a" * 31], ["ab", "c"], [""]], [["b" * 15], ["abc"], ["- a\n- b\n- c"]]
    )
    assert set(found) == set(CONTROLS)
    assert found["length"] == pytest.approx([1.0, 0.0, -np.log2(12)])
    assert found["markup"] == pytest.approx([0.0, 0.0, -2.0])


def test_turned_around_the_sign_turns() -> None:
    first, second = [["one **two**", "three"]], [["four"]]
    there, back = style_controls(first, second), style_controls(second, first)
    for name in CONTROLS:
        assert there[name] == pytest.approx(-back[name])
