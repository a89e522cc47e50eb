"""Linear scales and their ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values `low`…`high` to pixels `start`…`end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def held(self, value: float) -> float:
        """Return the pixel of a value, kept within the scale's ends."""
        return self(min(max(value, self.low), self.high))


def ticks(low: float, high: float, at_most: int = 6) -> list[float]:
    """Round values within `low`…`high`, steps of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    raw = (high - low) / max(at_most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def rating_ticks(low: float, high: float, at_most: int = 7) -> list[float]:
    """Return the ticks of a rating scale: every whole step if they fit, else its ends and middle."""
    steps = high - low
    if float(low).is_integer() and float(high).is_integer() and steps + 1 <= at_most:
        return [low + i for i in range(int(steps) + 1)]
    middle = (low + high) / 2
    return [low, middle, high] if at_most >= 3 else [low, high]


def padded(values: list[float], share: float = 0.06) -> tuple[float, float]:
    """Return the range of the values with a little room at both ends."""
    low, high = min(values), max(values)
    room = (high - low) * share or max(abs(high), 1) * share
    return low - room, high + room
