"""Writes of conversations: `messages` (and votes), `replies` (and the lease on them), `endings`.

Every write is one short transaction and safe to repeat.
"""

from webapp.conversations.services.endings import (
    conversation_complete,
    conversation_finish_failed,
    conversation_swap,
    conversation_withdraw,
    task_end_with_chats,
)
from webapp.conversations.services.messages import (
    HumanTurn,
    turn_add_human,
    vote_set,
)
from webapp.conversations.services.pairs import (
    pair_chats,
    pair_close,
    pair_finish_failed,
    pair_swap,
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
from webapp.conversations.services.reports import reply_report, reports_see

__all__ = [
    "BotTurn",
    "HumanTurn",
    "conversation_complete",
    "conversation_finish_failed",
    "conversation_swap",
    "conversation_withdraw",
    "pair_chats",
    "pair_close",
    "pair_finish_failed",
    "pair_swap",
    "reply_claim",
    "reply_fail",
    "reply_give_up",
    "reply_lease_renew",
    "reply_ready",
    "reply_release",
    "reply_report",
    "reply_retry",
    "reports_see",
    "task_end_with_chats",
    "turn_add_bot",
    "turn_add_human",
    "vote_set",
]
