"""State of a decoder from step to step, row by row.

Every tensor of a state has the rows first. A row is one reply under way, or one hypothesis of it. Rows can be
picked by index (dropped, doubled, reordered: beam search) and states joined (newcomers admitted), and no
row sees another's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class DecoderState:
    """Base of all states: a frozen dataclass of tensors, rows first.

    Where the sizes of two states differ after the first dimension, the smaller is filled up with zeros at
    its end; a state with such dimensions says in a mask or a length what is filled.
    """

    @property
    def n_rows(self) -> int:
        """R"""
        return len(getattr(self, fields(self)[0].name))

    def select(self, rows: Tensor | Sequence[int]) -> Self:
        """Return the rows of these indices, in their order; an index may come twice."""
        first = getattr(self, fields(self)[0].name)
        index = torch.as_tensor(rows, dtype=torch.long, device=first.device)
        return type(self)(
            **{f.name: getattr(self, f.name).index_select(0, index) for f in fields(self)}
        )

    def repeat(self, n: int) -> Self:
        """Repeat each row n times, next to itself: r_0, r_0, …, r_1, r_1, … (beam search counts on this order)."""
        return self.select([row for row in range(self.n_rows) for _ in range(n)])

    @classmethod
    def join(cls, states: Sequence[Self]) -> Self:
        """Return the rows of several states, in their order."""
        return cls(**{f.name: _joined([getattr(s, f.name) for s in states]) for f in fields(cls)})


def _joined(tensors: list[Tensor]) -> Tensor:
    """Concatenate by rows, filling the other dimensions up with zeros at their end."""
    shape = [max(sizes) for sizes in zip(*(t.shape[1:] for t in tensors), strict=True)]
    if all(list(t.shape[1:]) == shape for t in tensors):
        return torch.cat(tensors)
    joined = tensors[0].new_zeros(sum(len(t) for t in tensors), *shape)
    start = 0
    for tensor in tensors:
        place = (slice(start, start + len(tensor)), *(slice(0, size) for size in tensor.shape[1:]))
        joined[place] = tensor
        start += len(tensor)
    return joined


@dataclass(frozen=True, eq=False)
class HiddenState(DecoderState):
    """A recurrent decoder's state."""

    hidden: Tensor  # (R, H_d)
