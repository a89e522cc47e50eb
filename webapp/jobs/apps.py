"""App configuration: registers personal data, and alerts about bots."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from webapp.bots.models import BotAside
    from webapp.studies.models import Study


class RunsConfig(AppConfig):
    name = "webapp.jobs"
    label = "runs"  # the app's label in the database
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import pre_delete

        from webapp.bots.services import bot_came_back, bot_set_aside
        from webapp.jobs.models import MetricResult, SelfPlayRun
        from webapp.jobs.selectors.item_scores import item_scores
        from webapp.jobs.services.simulation import simulation_deleted, simulations_erase
        from webapp.studies.helped_draws import item_scores_wanted
        from webapp.studies.privacy import erasure_follow, erasure_kind, rows_of
        from webapp.studies.project_moves import study_moved

        erasure_kind("metric_results", _("results of metrics"), rows_of(MetricResult, "conversation__participant"))
        erasure_follow(_forget_errors)
        erasure_follow(simulations_erase)
        pre_delete.connect(simulation_deleted, sender=SelfPlayRun, dispatch_uid="simulation_deleted")
        bot_set_aside.connect(_tell_set_aside)
        study_moved.connect(_move_jobs)
        item_scores_wanted.connect(item_scores, dispatch_uid="item_scores")
        bot_came_back.connect(_tell_came_back)


def _move_jobs(study: Study, **_kwargs: Any) -> None:
    """Move the jobs of a study to its new project."""
    from webapp.jobs.models import HybridFit, Job, MetricRun, SelfPlayRun

    for model in (HybridFit, Job, MetricRun, SelfPlayRun):
        model.everywhere.filter(study=study).update(project=study.project_id)


def _forget_errors(studies: Collection[int]) -> None:
    from webapp.jobs.services.jobs import job_errors_forget

    job_errors_forget(studies)


def _tell_set_aside(aside: BotAside, **_kwargs: Any) -> None:
    from webapp.bots.models import Alert
    from webapp.jobs.alerts import alerts_make

    alerts_make(aside=aside, event=Alert.Event.SET_ASIDE)


def _tell_came_back(aside: BotAside, **_kwargs: Any) -> None:
    """Create the alert of an automatically enabled bot.

    A user who enables a bot needs no alert.
    """
    from webapp.bots.models import Alert
    from webapp.jobs.alerts import alerts_make

    if aside.ended_by == aside.EndedBy.REPLY:
        alerts_make(aside=aside, event=Alert.Event.CAME_BACK)
