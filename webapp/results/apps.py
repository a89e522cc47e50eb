"""App configuration: registers job kinds, and removes results on erasure."""

from collections.abc import Collection
from typing import Any

from django.apps import AppConfig


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

        kinds.look_into("webapp.results.kinds")
        erasure_follow(_forget_results)
        post_delete.connect(_forget_shards, sender=Job)
        disk_register("Benchmark files", project_benchmark_files)


def _forget_results(studies: Collection[int]) -> None:
    from webapp.jobs.services.jobs import jobs_forget
    from webapp.results.judge_versions import VERSION_KIND, corrections_erase

    jobs_forget(["results", "benchmark", "explanation", "realism", "judges", VERSION_KIND], studies)
    corrections_erase(studies)


def _forget_shards(instance: Any, **_: Any) -> None:
    """Delete a job's shards with its row, for example with its study."""
    from webapp.jobs.services.jobs import shards_forget

    shards_forget(job=instance)
