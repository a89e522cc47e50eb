"""Settings of participants' rights: the time limit for withdrawing, and how long ids and texts are kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chatbots.outside import Values

Days = Annotated[int, Field(ge=0, le=3650)]


class Rights(Values):
    """Withdrawing after the end, and the clock by which ids and texts are erased.
    People read both before they agree.
    """

    withdrawal_days: Days = Field(
        default=30,
        title="Days to withdraw after the end",
        description="So long after finishing, people can have their data deleted by a link on the last page. 0: only "
        "before they finish.",
    )
    ids_kept_days: Days | None = Field(
        default=None,
        title="Days that recruitment ids are kept",
        description="After the end of the study, or after the last decision about a person's pay where that is later. "
        "Empty: until somebody erases them.",
    )
    texts_kept_days: Days | None = Field(
        default=None,
        title="Days that texts are kept",
        description="After the end of the study: messages, replies, comments and answers in words. Ratings and other "
        "numbers stay. Empty: for ever.",
    )
