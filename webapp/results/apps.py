"""App configuration: registers job kinds, and removes results on erasure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from webapp.studies.models import Study


class ResultsConfig(AppConfig):
    name = "webapp.results"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from webapp.core.project_disk import disk_register
        from webapp.jobs.kinds.base import kinds
        from webapp.jobs.models import Job
        from webapp.results.benchmark_data import project_benchmark_files
        from webapp.studies.privacy import erasure_follow
        from webapp.studies.project_moves import study_moved

        kinds.look_into("webapp.results.kinds")
        erasure_follow(_forget_results)
        study_moved.connect(_move_developments)
        post_delete.connect(_forget_shards, sender=Job)
        disk_register("Benchmark files", project_benchmark_files)


def _forget_results(studies: Collection[int]) -> None:
    from webapp.jobs.services.jobs import jobs_forget
    from webapp.results.judge_versions import VERSION_KIND, corrections_erase
    from webapp.results.judges import DRIFT_KIND

    jobs_forget(["results", "benchmark", "explanation", "realism", "judges", VERSION_KIND, DRIFT_KIND], studies)
    corrections_erase(studies)


def _move_developments(study: Study, **_kwargs: Any) -> None:
    """Move the judges in development on a study to its new project."""
    from webapp.results.models import JudgeDevelopment

    JudgeDevelopment.everywhere.filter(study=study).update(project=study.project_id)


def _forget_shards(instance: Any, **_: Any) -> None:
    """Delete a job's shards with its row, for example with its study."""
    from webapp.jobs.services.jobs import shards_forget

    shards_forget(job=instance)
