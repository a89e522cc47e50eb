"""URLs of recruitment platforms' webhooks."""

from __future__ import annotations

from django.urls import path

from webapp.pay import views

app_name = "pay"
urlpatterns = [path("prolific/<slug:key>/", views.prolific_hook, name="prolific_hook")]
