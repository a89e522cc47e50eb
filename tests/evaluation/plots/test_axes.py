"""Every axis contains its values: random values and scales, read back from the drawings by their tick labels."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.plots.charts import ScatterPoint, Weight, scatter_drawing, weights_drawing
from evaluation.plots.marks import slots_of
from evaluation.plots.rows import (
    RowName,
    ScaleWindow,
    ValueRow,
    axis_cell,
    centred_window,
    full_window,
    interval_cell,
    rating_window,
    unbounded_window,
    values_drawing,
    window_around,
)
from evaluation.plots.svg import ticks

SCALES = st.sampled_from([(1.0, 5.0), (1.0, 7.0), (0.0, 100.0), (0.0, 1.0), (-3.0, 3.0), (0.0, 1e-3), (-1e6, 1e6)])
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=12)
N_TICKS = st.integers(2, 7)


def on_scale(shares: list[float], low: float, high: float) -> list[float]:
    return [min(max(low + share * (high - low), low), high) for share in shares]


def check_window(window: ScaleWindow, values: list[float]) -> None:
    assert window.low <= min(values)
    assert max(values) <= window.high
    # As in `ScaleWindow.cuts_low`: of the width, for an end may be 0 but for rounding where its tick is 0.
    rounding = (window.high - window.low) * 1e-9
    assert all(window.low - rounding <= tick <= window.high + rounding for tick in window.ticks)
    assert len(set(window.ticks)) == len(window.ticks)
    for value in values:
        exact = (value - window.low) / (window.high - window.low) if window.high > window.low else 0.5
        assert window.share(value) == pytest.approx(exact, abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(SCALES, SHARES, N_TICKS)
def test_windows_contain_their_values(scale: tuple[float, float], shares: list[float], at_most: int) -> None:
    values = on_scale(shares, *scale)
    window = window_around(values, *scale, at_most)
    check_window(window, values)
    assert scale[0] <= window.low
    assert window.high <= scale[1]
    check_window(full_window(*scale, at_most), values)
    check_window(unbounded_window(values, at_most), values)
    check_window(centred_window(values), values)


@pytest.mark.parametrize(
    "values",
    [
        [49.0836672021124, 5.660377358490557, 99.99999999999999],  # the padded low end is 9e-16, and its tick 0
        [999_999.9999999998, 1_000_000.0],
        [5e-324],
        [0.0, 5e-323],
    ],
)
def test_values_that_differ_by_rounding_have_distinct_ticks(values: list[float]) -> None:
    check_window(unbounded_window(values, 6), values)
    check_window(centred_window(values), values)


def test_one_tick_between_far_values_does_not_shrink_the_axis() -> None:
    """Means of 16 to 66 used to be drawn on an axis of 40 to 60: the only tick, plus and minus a tenth."""
    window = window_around([16, 66], 0, 100, 3)
    assert (window.low, window.high) == (0, 100)
    assert window_around([16, 78], 0, 100, 4).low <= 16


@settings(max_examples=100, deadline=None)
@given(SCALES, st.lists(st.floats(-2, 3), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_means_outside_the_scale_extend_it_and_intervals_end_in_arrows(
    scale: tuple[float, float], shares: list[float], is_whole: bool, is_open: bool
) -> None:
    size = scale[1] - scale[0]
    means = [scale[0] + share * size for share in shares]
    spans = [(mean, mean - 3 * size, mean + 3 * size) for mean in means]
    window = rating_window(spans, *scale, is_whole=is_whole, is_open=is_open)
    check_window(window, means)
    if is_whole:
        assert window.is_whole
    for mean, low, high in spans:
        cell = str(interval_cell(window, mean, low, high))
        rounding = (window.high - window.low) * 1e-9
        n_cut = (low < window.low - rounding) + (high > window.high + rounding)
        assert cell.count("interval-arrow") == n_cut
        assert not (is_open and n_cut)


def test_the_whole_scale_keeps_its_ticks_and_says_what_the_strip_is() -> None:
    assert rating_window([(3.0, 2.0, 4.0)], 1, 5, is_whole=True) == full_window(1, 5)
    assert "whole scale" in axis_cell(window_around([3, 3.5], 1, 5))
    assert "whole scale" not in axis_cell(full_window(1, 5))


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9), st.integers(2, 8))
def test_ticks_are_distinct_and_within_the_axis(low: float, size: float, at_most: int) -> None:
    high = low + size
    if high - low < 1e-6 * max(abs(low), abs(high)):
        return  # labels have ten digits
    result = ticks(low, high, at_most)
    # A step with one tick gives way to a smaller one, by up to 2.5.
    assert len(set(result)) == len(result) <= max(at_most + 1, 5)
    assert all(low - size * 1e-6 <= tick <= high + size * 1e-6 for tick in result)


def number(text: str | None) -> float:
    return float((text or "").replace("\u2212", "-"))


def percent(part: ElementTree.Element) -> float:
    return float(part.get("x", "").removesuffix("%"))


def with_class(root: ElementTree.Element, *names: str) -> list[ElementTree.Element]:
    return [part for part in root.iter() if set(names) <= set(part.get("class", "").split())]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=8), st.floats(0, 1e4), st.sampled_from([298.0, 515.0]))
def test_rows_stand_at_their_values(means: list[float], half: float, width: float) -> None:
    if max(means) - min(means) + half < 1e-3:
        return
    rows = [ValueRow(RowName("a"), mean, mean - half, mean + half, "", "") for mean in means]
    shade = (min(means) - 5, max(means) + 5)
    root = ElementTree.fromstring(values_drawing(rows, width, name="x", shade=shade))
    marks = [(percent(tick), number(tick.text)) for tick in with_class(root, "tick", "middle")]
    for part in [*with_class(root, "mean-tick"), *with_class(root, "interval"), *with_class(root, "rated-span")]:
        assert 0 <= percent(part) <= 100
        assert (
            percent(part) + float(part.get("width", "0").removesuffix("%")) * ("%" in part.get("width", "")) <= 100.01
        )
    if len(marks) > 1:
        (x0, low), (x1, high) = marks[0], marks[-1]
        for tick, mean in zip(with_class(root, "mean-tick"), means, strict=True):
            value = low + (percent(tick) - x0) / (x1 - x0) * (high - low)
            assert value == pytest.approx(mean, abs=2e-3 * (max(means) - min(means) + half + 10))


POINTS = st.lists(
    st.tuples(st.floats(1, 5), st.floats(-3, 9), st.floats(0, 2), st.floats(0, 4)), min_size=1, max_size=14
)


def scatter_points(
    values: list[tuple[float, float, float, float]], name: str = "a bot with a long name"
) -> list[ScatterPoint]:
    return [
        ScatterPoint(f"{name} {slot}", slot, False, x, (x - dx, x + dx), y, (y - dy, y + dy), 9)
        for slot, (x, y, dx, dy) in zip(slots_of(len(values)), values, strict=True)
    ]


def numbers_of(root: ElementTree.Element, name: str) -> list[float]:
    return [float(part.get(name, "nan")) for part in root.iter() if part.get(name)]


@settings(max_examples=60, deadline=None)
@given(POINTS, st.sampled_from([(298.0, 330.0, 11.0), (515.0, 390.0, 13.0)]))
def test_scatter_plots_contain_points_and_labels_cover_no_mark(
    values: list[tuple[float, float, float, float]], size: tuple[float, float, float]
) -> None:
    width, height, letters = size
    drawn = scatter_drawing(scatter_points(values), width, height, "x", "y", name="n", size=letters)
    root = ElementTree.fromstring(drawn)
    for whisker in with_class(root, "whisker"):
        for part in whisker:
            assert 46 <= float(part.get("x1", "")) <= float(part.get("x2", "")) <= width - 12
            assert 12 <= float(part.get("y1", "")) <= height - 50
            assert 12 <= float(part.get("y2", "")) <= height - 50
    labels = with_class(root, "label")
    names = [part.text for part in labels or with_class(root, "name")]
    assert len(names) == len(values)
    bottom = float(root.get("height", "0"))
    assert all(part_y <= bottom for part_y in numbers_of(root, "y"))
    boxes = [(float(part.get("x", "")), float(part.get("y", ""))) for part in labels]
    for hit in with_class(root, "hit"):
        x, y = float(hit.get("x", "")) + 14, float(hit.get("y", "")) + 14
        # The start of a label's baseline lies in no mark of 16 pixels.
        assert not any(x - 6 < left < x + 6 and y - 4 < base - 4 < y + 4 for left, base in boxes)


def test_names_that_find_no_place_beside_the_marks_go_below_the_plot() -> None:
    crowd = [(3 + 0.01 * i, 3 + 0.01 * i, 1.0, 1.0) for i in range(8)]
    root = ElementTree.fromstring(scatter_drawing(scatter_points(crowd), 298, 330, "x", "y", name="n", size=11))
    assert not with_class(root, "label")
    assert len(with_class(root, "name")) == 8
    assert float(root.get("height", "0")) > 330
    apart = [(1.0, 1.0, 0.0, 0.0), (5.0, 5.0, 0.0, 0.0)]
    drawn = scatter_drawing(scatter_points(apart, "b"), 515, 390, "x", "y", name="n")
    assert len(with_class(ElementTree.fromstring(drawn), "label")) == 2


def test_weights_name_their_unit() -> None:
    drawn = weights_drawing([Weight("words", 0.2, 0.1, 0.3)], 298, name="w", unit="Points per standard deviation")
    assert "Points per standard deviation" in re.sub("<[^>]+>", " ", drawn)


def test_values_that_are_not_finite_do_not_move_an_axis() -> None:
    for window in (
        window_around([2, math.inf], 1, 5),
        unbounded_window([2.0, np.nan, 3.0]),
        centred_window([1.0, -math.inf]),
    ):
        assert math.isfinite(window.low)
        assert math.isfinite(window.high)
