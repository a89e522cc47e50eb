"""URLs of pages shared with readers without an account."""

from __future__ import annotations

from django.urls import path

from webapp.dashboard.views.report import shared

app_name = "shared"
urlpatterns = [path("<str:token>/", shared, name="report")]
