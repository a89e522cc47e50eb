"""Projects: switcher, list of all projects, roles, and moves of studies."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from webapp.bots.project_spending import unpriced_bots
from webapp.bots.selectors import bot_entry_list
from webapp.core.errors import Refused
from webapp.core.project_scope import USUAL_PROJECT, in_project, project_of_new_rows
from webapp.core.projects import (
    LARGEST_COST,
    LARGEST_DISK_MB,
    LONGEST_ROLE_NAME,
    has_several_projects,
    project_choose,
    project_create,
    project_limit,
    project_rename,
    projects_all,
    projects_of,
    role_save,
)
from webapp.core.rights import Right, account_groups, may, may_in
from webapp.dashboard.navigation import form_view, post_view
from webapp.dashboard.views.system import page_of_settings
from webapp.insights.project_usage import project_usage
from webapp.studies.project_moves import offers_to, studies_by_name, study_accept, study_decline, study_offer
from webapp.studies.study_agreements import (
    agreement_answer,
    agreement_ask,
    agreement_drop,
    agreements_about,
    agreements_requested,
)


class LimitsForm(forms.Form):
    """Limits of a project; empty fields set none."""

    monthly_cost_limit = forms.FloatField(
        label="Cost limit a month",
        min_value=0,
        max_value=LARGEST_COST,
        required=False,
        help_text="In the currency of the bots’ prices. Empty for no limit.",
    )
    disk_limit_mb = forms.IntegerField(
        label="Disk limit in MB",
        min_value=0,
        max_value=LARGEST_DISK_MB,
        required=False,
        help_text="Empty for no limit.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"


class ProjectForm(LimitsForm):
    """A new project."""

    field_order = ["name", "key"]

    name = forms.CharField(label="Name", max_length=200, help_text="Shown in the switcher, such as “Speech group”.")
    key = forms.SlugField(
        label="Key", max_length=60, help_text="Short name for commands: letters, digits, hyphens and underscores."
    )


@post_view()
def choose(request: HttpRequest) -> HttpResponse:
    """Switch to another project, and redirect to the requested page.

    Home by default.
    """
    try:
        project_choose(request=request, key=request.POST.get("project", ""))
    except Refused as error:
        messages.error(request, error.message)
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = reverse("dashboard:home")
    return redirect(back)


@form_view(to_post=[Right.ADMINISTER])
def projects(request: HttpRequest) -> HttpResponse:
    """Show the user's projects and the studies offered to this one; create a project."""
    actor: Any = request.user
    form = ProjectForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            project = project_create(actor=actor, **form.cleaned_data)
        except Refused as error:
            form.add_error(None if error.code == "rights" else "key", error.message)
        else:
            project_choose(request=request, key=project.key)
            messages.success(request, f"{project.name} was created. Add its members here.")
            return redirect("dashboard:people")
    may_create = may_in(actor, USUAL_PROJECT, Right.ADMINISTER)
    usage = project_usage(projects_all(None if may_create else project_of_new_rows()))
    return page_of_settings(
        request,
        "projects.html",
        "projects",
        status=400 if form.errors else 200,
        form=form,
        mine=projects_of(actor),
        may_create=may_create,
        usage=usage,
        limits=[
            (row.project, LimitsForm(initial=vars(row.project), auto_id=f"id_{row.project.key}_%s")) for row in usage
        ],
        may_administer=may(actor, Right.ADMINISTER),
        is_shared_server=has_several_projects(),
        offers=offers_to(project_of_new_rows()),
        studies=studies_by_name(is_offered=False),
        offered=studies_by_name(is_offered=True),
        may_agree=may(actor, *Right),
        requested=agreements_requested(),
        requests=agreements_about(),
    )


@post_view(to_post=[Right.ADMINISTER])
def project_change(request: HttpRequest) -> HttpResponse:
    """Change a project by the pressed button.

    It renames the project, saves a role, or offers, accepts or declines a study.
    """
    actor: Any = request.user
    key, action = project_of_new_rows(), request.POST.get("action", "")
    try:
        if action == "rename":
            project = next(project for project in projects_of(actor) if project.key == key)
            project_rename(actor=actor, project=project, name=request.POST.get("name", ""))
            messages.success(request, "The project was renamed.")
        elif action == "limits":
            _save_limits(request)
        elif action == "role":
            role_save(
                actor=actor,
                key=key,
                name=request.POST.get("name", "")[: LONGEST_ROLE_NAME + 1],
                rights=request.POST.getlist("rights"),
                group=account_groups([number]).first() if (number := request.POST.get("role", "")) else None,
            )
            messages.success(request, "The role was saved.")
            return redirect("dashboard:people")
        elif action == "offer":
            study = get_object_or_404(studies_by_name(), key=request.POST.get("study", ""))
            study_offer(study=study, key=request.POST.get("to", "").strip())
            messages.success(request, f"{study.name} was offered. It moves as soon as that project accepts it.")
        elif action == "withdraw":
            study_decline(study=get_object_or_404(studies_by_name(), key=request.POST.get("study", "")))
            messages.success(request, "The offer was withdrawn.")
        elif action in _AGREEMENTS:
            _change_agreement(request, action)
        elif action in ("accept", "decline"):
            study = get_object_or_404(offers_to(key), key=request.POST.get("study", ""))
            (study_accept if action == "accept" else study_decline)(study=study)
            messages.success(request, f"{study.name} was {'accepted' if action == 'accept' else 'declined'}.")
        else:
            raise Http404
    except Refused as error:
        messages.error(request, error.message)
    return redirect("dashboard:projects")


_AGREEMENTS = {
    "ask": "The request was stored. If another project has this study, its owners can accept it.",
    "drop": "The request was removed.",
    "agree": "The request was accepted.",
    "disagree": "The agreement was declined or withdrawn.",
}


def _change_agreement(request: HttpRequest, action: str) -> None:
    """Ask for an agreement about a study, or drop, accept or decline one."""
    if not may(request.user, *Right):
        raise Refused("rights", "Only owners of the project can make agreements with other projects.")
    number = request.POST.get("agreement", "")
    if action == "ask":
        agreement_ask(study_key=request.POST.get("study", "").strip())
    elif action == "drop":
        agreement_drop(number=number)
    else:
        agreement_answer(number=number, is_accepted=action == "agree")
    messages.success(request, _AGREEMENTS[action])


def _save_limits(request: HttpRequest) -> None:
    """Save the limits of the project that the form names, and warn of bots without prices."""
    if not may_in(request.user, USUAL_PROJECT, Right.ADMINISTER):
        raise Refused("rights", "Only administrators of the server can set limits.")
    project = get_object_or_404(projects_all(), key=request.POST.get("project", ""))
    form = LimitsForm(request.POST)
    if not form.is_valid():
        raise Refused("bad_limit", " ".join(f"{form[name].label}: {errors[0]}" for name, errors in form.errors.items()))
    project_limit(project=project, **form.cleaned_data)
    messages.success(request, f"The limits of {project.name} were saved.")
    if project.monthly_cost_limit is not None:
        with in_project(project.key):
            warning = unpriced_bots([entry.id for entry in bot_entry_list()])
        if warning:
            messages.warning(request, warning)
