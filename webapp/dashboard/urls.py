"""Addresses of the dashboard."""

from __future__ import annotations

from django.urls import path

from webapp.dashboard.views import (
    analysis,
    bots,
    collect,
    conversations,
    export,
    hybrid,
    imports,
    jobs,
    links,
    metrics,
    pay,
    studies,
    study,
)
from webapp.dashboard.views.build import items, keeping, new, step

app_name = "dashboard"
urlpatterns = [
    path("", studies.studies, name="studies"),
    path("theme/", studies.theme, name="theme"),
    path("studies/new/", new.study_new, name="study_new"),
    path("studies/<slug:key>/duplicate/", keeping.duplicate, name="study_duplicate"),
    path("studies/<slug:key>/archive/", keeping.archive, name="study_archive"),
    path("studies/<slug:key>/delete/", keeping.delete, name="study_delete"),
    path("studies/<slug:key>/rehearse/", keeping.rehearse, name="study_rehearse"),
    path("studies/<slug:key>/items/", items.items_add, name="study_items"),
    path("studies/<slug:key>/build/", step.build, name="study_build"),
    path("studies/<slug:key>/build/<slug:step>/", step.build_step, name="study_build_step"),
    path("studies/<slug:key>/", study.overview, name="study"),
    path("studies/<slug:key>/collect/", collect.collect, name="study_collect"),
    path("studies/<slug:key>/collect/pay/", pay.pay, name="study_pay"),
    path("studies/<slug:key>/collect/pay/decide/", pay.decide, name="study_pay_decide"),
    path(
        "studies/<slug:key>/collect/pay/<uuid:participant_id>/",
        pay.person,
        name="study_pay_person",
    ),
    path("studies/<slug:key>/collect/places/", collect.places, name="study_places"),
    path("studies/<slug:key>/collect/links/", links.links, name="study_links"),
    path("studies/<slug:key>/collect/links.csv", links.links_csv, name="study_links_csv"),
    path("studies/<slug:key>/bots/", analysis.bots, name="study_bots"),
    path("studies/<slug:key>/agreement/", analysis.agreement, name="study_agreement"),
    path("studies/<slug:key>/statistics/", analysis.statistics, name="study_statistics"),
    path(
        "studies/<slug:key>/statistics/<slug:part>/",
        analysis.statistics,
        name="study_statistics_part",
    ),
    path(
        "studies/<slug:key>/statistics/trajectories/<slug:figure>/<slug:column>/<int:group>/<int:exchange>/",
        analysis.point,
        name="study_point",
    ),
    path("studies/<slug:key>/report/", analysis.report, name="study_report"),
    path("studies/<slug:key>/report.html", analysis.report_file, name="study_report_file"),
    path("studies/<slug:key>/hybrid/", hybrid.hybrid, name="study_hybrid"),
    path("studies/<slug:key>/hybrid/<int:fit_id>.json", hybrid.fit_download, name="fit_download"),
    path("studies/<slug:key>/selfplay/", study.selfplay, name="study_selfplay"),
    path(
        "studies/<slug:key>/conversations/",
        conversations.study_conversations,
        name="study_conversations",
    ),
    path("studies/<slug:key>/metrics/", metrics.study_metrics, name="study_metrics"),
    path("studies/<slug:key>/export/", export.export, name="study_export"),
    path("studies/<slug:key>/export/<int:pk>/", export.made, name="study_export_file"),
    path("conversations/<uuid:conversation_id>/", conversations.conversation, name="conversation"),
    path("bots/", bots.bots, name="bots"),
    path("bots/remote/<slug:model_id>/add/", bots.bot_add, name="bot_add"),
    path("bots/<str:bot_id>/", bots.bot, name="bot"),
    path("bots/<str:bot_id>/reply/", bots.bot_reply, name="bot_reply"),
    path("bots/<str:bot_id>/try/", bots.bot_try, name="bot_try"),
    path("runs/", jobs.runs, name="runs"),
    path("runs/<int:run_id>/", jobs.run, name="run"),
    path(
        "runs/<int:run_id>/conversations/",
        conversations.run_conversations,
        name="run_conversations",
    ),
    path("jobs/<slug:kind>/<int:pk>/", jobs.job, name="job"),
    path("jobs/<slug:kind>/<int:pk>/live/", jobs.job_live, name="job_live"),
    path("jobs/<slug:kind>/<int:pk>/stop/", jobs.job_stop, name="job_stop"),
    path("jobs/<slug:kind>/<int:pk>/go-on/", jobs.job_go_on, name="job_go_on"),
    path("metrics/", metrics.metrics, name="metrics"),
    path("imports/", imports.imports, name="imports"),
]
