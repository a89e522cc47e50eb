"""Writes of conversations: messages, replies, feedback, partners and endings.

Every write is one short transaction and can be repeated safely.
"""

from __future__ import annotations

from webapp.conversations.services.endings import (
    conversation_complete,
    conversation_finish_failed,
    conversation_swap,
    conversation_withdraw,
    pair_chats,
    pair_close,
    pair_finish_failed,
    pair_swap,
    task_end_with_chats,
    task_end_with_credit,
)
from webapp.conversations.services.feedback import distress_marks_see, reply_report, reports_see, vote_set
from webapp.conversations.services.messages import HumanTurn, turn_add_human
from webapp.conversations.services.partners import (
    STAFF_REPLY_MAX_CHARS,
    PartnerLook,
    partner_look,
    partner_words_remove,
    seat_take,
    staff_reply,
)
from webapp.conversations.services.replies import (
    BotTurn,
    reply_claim,
    reply_fail,
    reply_give_up,
    reply_lease_renew,
    reply_ready,
    reply_release,
    reply_retry,
    turn_add_bot,
)

__all__ = [
    "STAFF_REPLY_MAX_CHARS",
    "BotTurn",
    "HumanTurn",
    "PartnerLook",
    "conversation_complete",
    "conversation_finish_failed",
    "conversation_swap",
    "conversation_withdraw",
    "distress_marks_see",
    "pair_chats",
    "pair_close",
    "pair_finish_failed",
    "pair_swap",
    "partner_look",
    "partner_words_remove",
    "reply_claim",
    "reply_fail",
    "reply_give_up",
    "reply_lease_renew",
    "reply_ready",
    "reply_release",
    "reply_report",
    "reply_retry",
    "reports_see",
    "seat_take",
    "staff_reply",
    "task_end_with_chats",
    "task_end_with_credit",
    "turn_add_bot",
    "turn_add_human",
    "vote_set",
]
