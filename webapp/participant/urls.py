"""Addresses of the participant's way."""

from __future__ import annotations

from django.urls import path

from webapp.participant import elsewhere, reporting, views, withdrawing
from webapp.participant.preview.views import preview
from webapp.participant.steps import (
    arena,
    chat,
    consent,
    done,
    form,
    judge,
    practice,
    questions,
    quiz,
)

app_name = "participant"
urlpatterns = [
    path("", views.index, name="index"),
    path("s/<slug:study_key>/", consent.entry, name="entry"),
    path("s/<slug:study_key>/start/", views.start, name="start"),
    path("s/<slug:study_key>/decline/", views.decline, name="decline"),
    path("chat/<uuid:conversation_id>/", chat.chat, name="chat"),
    path("chat/<uuid:conversation_id>/end/", chat.end, name="end"),
    path("chat/<uuid:conversation_id>/answer/", chat.answer, name="answer"),
    path("chat/<uuid:conversation_id>/rate/", form.rate, name="rate"),
    path("chat/<uuid:conversation_id>/done/", done.done, name="done"),
    path("chat/<uuid:conversation_id>/swap/", views.swap, name="swap"),
    path("chat/<uuid:conversation_id>/finish/", views.finish, name="finish"),
    path("chat/<uuid:conversation_id>/withdraw/", views.withdraw, name="withdraw"),
    path("chat/<uuid:conversation_id>/report/", reporting.chat_report, name="chat-report"),
    path("task/<uuid:task_id>/report/", reporting.task_report, name="task-report"),
    path("withdraw/<str:token>/", withdrawing.withdraw_all, name="withdraw-all"),
    path("go-on/<str:token>/", elsewhere.go_on, name="go-on"),
    path("preview/<slug:study_key>/<slug:step>/", preview, name="preview"),
    path("task/<uuid:task_id>/quiz/", quiz.quiz, name="quiz"),
    path("task/<uuid:task_id>/questions/", questions.questions, name="questions"),
    path("task/<uuid:task_id>/practice/", practice.practice, name="practice"),
    path("task/<uuid:task_id>/arena/", arena.arena, name="arena"),
    path("task/<uuid:task_id>/judge/", judge.judge, name="judge"),
    path("task/<uuid:task_id>/elsewhere/", elsewhere.elsewhere, name="elsewhere"),
    path("task/<uuid:task_id>/withdraw/", withdrawing.withdraw_here, name="withdraw-here"),
    path("task/<uuid:task_id>/on/", elsewhere.elsewhere_back, name="elsewhere-back"),
    path("task/<uuid:task_id>/done/", done.task_done, name="task-done"),
]
