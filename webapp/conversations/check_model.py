"""The table of answers to attention checks in chats; other modules know it from `webapp.conversations.models`."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class ChatCheckAnswer(models.Model):
    """Answer of a participant to an attention check in the middle of a chat; it never changes."""

    conversation = models.ForeignKey(
        "conversations.Conversation", on_delete=models.CASCADE, related_name="check_answers"
    )
    check_digest = models.CharField(max_length=32, help_text=_("Of the check."))
    question = models.CharField(max_length=300)
    expected = models.JSONField(help_text=_("Answers that pass."))
    answer = models.CharField(max_length=200)
    is_right = models.BooleanField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "check_digest"], name="chat_check_answer_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}/{self.check_digest}"
