"""Pages of lists by `limit` and `offset`; both stay within what a database counts."""

from __future__ import annotations

from ninja import Schema
from ninja.pagination import LimitOffsetPagination
from pydantic import Field


class Part(Schema):
    """Part of a list."""

    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


class Pages(LimitOffsetPagination):
    """The library's pages, within these limits."""

    class Input(Part):
        """Parameters of a list call."""
