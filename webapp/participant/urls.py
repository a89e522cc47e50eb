"""Addresses of participants' pages: steps, buttons and additional pages."""

from __future__ import annotations

from django.urls import path

from webapp.participant import chat_requests, device_transfer, messages, reply_reports, views, withdrawal
from webapp.participant.preview import preview
from webapp.participant.steps.base import steps

app_name = "participant"
urlpatterns = [
    *(address for step in steps for address in step.urls()),
    path("", views.index, name="index"),
    path("s/<slug:study_key>/start/", views.start, name="start"),
    path("s/<slug:study_key>/decline/", views.decline, name="decline"),
    path("s/<slug:study_key>/script-failed/", views.script_failed, name="script-failed"),
    path("s/<slug:study_key>/messages/", messages.messages, name="messages"),
    path("chat/<uuid:conversation_id>/messages/", chat_requests.chat_messages, name="chat-messages"),
    path("chat/<uuid:conversation_id>/state/", chat_requests.chat_state, name="chat-state"),
    path("chat/<uuid:conversation_id>/end/", views.end, name="end"),
    path("chat/<uuid:conversation_id>/answer/", views.answer, name="answer"),
    path("chat/<uuid:conversation_id>/swap/", views.swap, name="swap"),
    path("chat/<uuid:conversation_id>/finish/", views.finish, name="finish"),
    path("chat/<uuid:conversation_id>/withdraw/", views.withdraw, name="withdraw"),
    path("chat/<uuid:conversation_id>/image/", views.image, name="image"),
    path("chat/<uuid:conversation_id>/report/", reply_reports.chat_report, name="chat-report"),
    path("task/<uuid:task_id>/report/", reply_reports.task_report, name="task-report"),
    path("withdraw/<str:token>/", withdrawal.withdraw_all, name="withdraw-all"),
    path("go-on/<str:token>/", device_transfer.go_on, name="go-on"),
    path("preview/<slug:study_key>/<slug:step>/", preview, name="preview"),
    path("task/<uuid:task_id>/elsewhere/", device_transfer.elsewhere, name="elsewhere"),
    path("task/<uuid:task_id>/translated/", views.translated, name="translated"),
    path("task/<uuid:task_id>/withdraw/", withdrawal.withdraw_here, name="withdraw-here"),
    path("task/<uuid:task_id>/on/", device_transfer.elsewhere_back, name="elsewhere-back"),
]
