"""Work that was under way when the database of an earlier release was upgraded, and how it ends afterwards."""

import uuid
from datetime import timedelta
from typing import Any

from django.apps.registry import Apps
from django.utils import timezone

ELSEWHERE = "another-machine:7:token"
"""Who held the work; the machine that is upgraded cannot ask whether that process lives."""


def finish(names: dict[str, Any]) -> dict[str, Any]:
    """Be a worker until nothing is left to do; return every job with its state, and what it left.

    Args:
        names: what `interrupted` returned.
    """
    from webapp.jobs.engine import run_job
    from webapp.jobs.kinds.base import job_models
    from webapp.jobs.models import MetricResult, SelfPlayRun
    from webapp.jobs.selectors.jobs import jobs_for_workers
    from webapp.jobs.services.jobs import jobs_settle

    results = MetricResult.objects.filter(conversation__study__key="imported")
    n_kept = results.count()
    jobs_settle()
    while jobs := [*jobs_for_workers("gpu"), *jobs_for_workers("default")]:
        run_job(jobs[0])
    ended = {
        f"{job.kind} {job.pk}": [job.state, job.n_done, job.n_total, job.error]
        for model in job_models()
        for job in model._default_manager.order_by("pk")
    }
    whole, half = (
        sorted(
            run.conversations.values_list("bot_id", "ordinal", "conversation__turns__text").order_by(
                "bot_id", "ordinal", "conversation__turns__index"
            )
        )
        for run in SelfPlayRun.objects.filter(pk__in=[names["whole"], names["selfplay"]]).order_by("pk")
    )
    return {
        "names": names,
        "ended": ended,
        "texts": len(whole),
        "same": whole == half,
        "results": [n_kept, results.count()],
    }


def interrupted(apps: Apps) -> dict[str, Any]:
    """Put work that was under way into the tables of the release; return which row is what.

    A self-play run of which one conversation is there, another that was to stop, metrics of half of a study, and a fit.
    """
    runs, conversations = apps.get_app_config("runs"), apps.get_app_config("conversations")
    under_way = {
        "pk": None,
        "state": "running",
        "holder": ELSEWHERE,
        "heartbeat_at": timezone.now() - timedelta(days=1),
        "ended_at": None,
    }

    def again(row: Any, **fields: Any) -> Any:
        """Store a copy of a row with other values."""
        for name, value in fields.items():
            setattr(row, name, value)
        row._state.adding = True
        row.save(force_insert=True)
        return row

    run_model, link_model = runs.get_model("SelfPlayRun"), runs.get_model("SelfPlayConversation")
    whole = run_model.objects.get().pk
    half = again(run_model.objects.get(pk=whole), **under_way, n_done=1)
    link = link_model.objects.filter(run_id=whole).order_by("bot_id", "ordinal").first()
    conversation = conversations.get_model("Conversation").objects.get(pk=link.conversation_id)
    copied = again(conversation, pk=uuid.uuid4())
    for turn in conversations.get_model("Turn").objects.filter(conversation=link.conversation_id):
        again(turn, pk=None, conversation_id=copied.pk)
    again(link, pk=None, run_id=half.pk, conversation_id=copied.pk)
    stopping = again(run_model.objects.get(pk=whole), **under_way, n_done=0, cancel_requested=True)

    metric_run_model = runs.get_model("MetricRun")
    computed = metric_run_model.objects.filter(state="done", study__key="imported").get()
    results = runs.get_model("MetricResult").objects.filter(conversation__study__key="imported")
    n_results = results.count()
    some = results.order_by("conversation_id").values_list("conversation_id", flat=True).distinct()[:12]
    n_deleted, _ = results.filter(conversation_id__in=list(some)).delete()
    measuring = again(computed, **under_way, n_done=12)
    fit_model = runs.get_model("HybridFit")
    fitting = again(fit_model.objects.get(), **under_way, result=None, kept=None)
    return {
        "whole": whole,
        "selfplay": half.pk,
        "stopping": stopping.pk,
        "metrics": measuring.pk,
        "hybrid": fitting.pk,
        "results": [n_results - n_deleted, n_results],
    }
