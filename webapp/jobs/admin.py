"""Read-only admin of self-play runs, metrics and hybrid fits."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from webapp.core.rights import ReadOnlyAdminMixin, Right
from webapp.jobs.models import HybridFit, Job, MetricRun, MetricVersion, SelfPlayRun
from webapp.jobs.services.jobs import jobs_settle


class JobAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Admin of jobs: users who may run jobs may delete them."""

    right_to_delete = Right.RUN

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        jobs_settle()
        return super().changelist_view(request, extra_context)


@admin.register(SelfPlayRun)
class SelfPlayRunAdmin(JobAdmin):
    list_display = ("id", "name", "state", "n_done", "n_total", "created_by", "created_at", "ended_at")
    list_filter = ("state",)
    list_select_related = ("created_by",)
    search_fields = ("name", "error")


@admin.register(MetricRun)
class MetricRunAdmin(JobAdmin):
    list_display = ("id", "study", "run", "state", "n_done", "n_total", "created_at", "ended_at")
    list_filter = ("state", "study")
    list_select_related = ("study", "run")
    search_fields = ("study__key", "error")


@admin.register(HybridFit)
class HybridFitAdmin(JobAdmin):
    list_display = ("id", "study", "run", "state", "created_by", "created_at", "ended_at")
    list_filter = ("state", "study")
    list_select_related = ("study", "run", "created_by")
    search_fields = ("study__key", "error")
    exclude = ("kept", "predictions")


@admin.register(Job)
class OtherJobAdmin(JobAdmin):
    list_display = ("id", "kind", "study", "state", "created_by", "created_at", "ended_at")
    list_filter = ("kind", "state")
    list_select_related = ("study", "created_by")
    search_fields = ("kind", "study__key", "error")
    exclude = ("result",)


@admin.register(MetricVersion)
class MetricVersionAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    right_to_delete = None
    list_display = ("name", "version", "key", "created_at")
    list_filter = ("name",)
    search_fields = ("name", "key")
