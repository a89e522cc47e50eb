"""Shapes and texts of drawings."""

import re

from evaluation.plots.marks import bot_shape
from evaluation.plots.svg import Scale, el, rating_ticks, ticks
from evaluation.plots.text_layout import Box, place_labels, shorten, text_width

HOSTILE = '"><script>alert(1)</script>\x07 & \u202e'


def test_the_builder_escapes_attributes_and_text() -> None:
    made = el("text", HOSTILE, x=1.5, aria_label=HOSTILE, class_="a b")
    assert made.startswith('<text x="1.5" aria-label="&#34;&gt;&lt;script&gt;')
    assert "<script" not in made
    assert "\x07" not in made


def test_each_slot_has_a_shape_of_its_own() -> None:
    shapes = {re.sub(r"bot-\w+", "", bot_shape(8, 8, slot)) for slot in range(1, 9)}
    assert len(shapes) == 8


def test_labels_keep_apart_where_there_is_room() -> None:
    points = [(100.0, 100.0), (108.0, 104.0), (116.0, 98.0), (112.0, 110.0)]
    bounds = Box(0, 0, 500, 300)
    labels = place_labels(["retrieval", "vhred", "hred-ei", "eliza"], points, [], bounds)
    boxes = [label.box for label in labels]
    for i, box in enumerate(boxes):
        assert bounds.x0 <= box.x0 < box.x1 <= bounds.x1
        assert bounds.y0 <= box.y0 < box.y1 <= bounds.y1
        for other in boxes[i + 1 :]:
            beside = box.x1 <= other.x0 or other.x1 <= box.x0
            assert beside or box.y1 <= other.y0 or other.y1 <= box.y0


def test_scales_and_ticks() -> None:
    assert Scale(1, 7, 0, 60)(4) == 30
    assert ticks(0, 1, 6) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(1.9, 5.4, 5) == [2, 3, 4, 5]
    assert rating_ticks(1, 7) == [1, 2, 3, 4, 5, 6, 7]
    assert rating_ticks(1, 7, 3) == [1, 4, 7]
    assert rating_ticks(0, 100) == [0, 50, 100]


def test_text_is_cut_to_its_place() -> None:
    long = "a very long name of a bot " * 4
    short = shorten(long, 100)
    assert short.endswith("…")
    assert text_width(short) <= 100
    assert shorten("eliza", 100) == "eliza"
    assert text_width("日本語") > text_width("abc")
