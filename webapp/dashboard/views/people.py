"""Settings: accounts of staff with their rights, and bots' secrets."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from webapp.bots.declared_bots import (
    LONGEST_SECRET,
    can_store_secrets,
    secret_delete,
    secret_replace,
    secret_store,
    secrets_renew,
    secrets_with_bots,
)
from webapp.bots.models import Secret
from webapp.core.errors import Refused
from webapp.core.project_scope import USUAL_PROJECT, project_of_new_rows
from webapp.core.projects import role_name
from webapp.core.rights import (
    Right,
    account_activate,
    account_add,
    account_delete,
    account_groups,
    account_groups_set,
    accounts,
    password_path,
)
from webapp.dashboard.navigation import form_view, post_view
from webapp.dashboard.views.system import page_of_settings


class AccountForm(forms.ModelForm):
    """A new account of staff."""

    groups = forms.ModelMultipleChoiceField(
        account_groups(), label="Roles", required=False, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = User
        fields = ("username", "email")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for name in ("username", "email"):
            self.fields[name].widget.attrs.update({"class": "input", "autocomplete": "off"})
        self.fields["username"].help_text = "Used to sign in."
        roles: Any = self.fields["groups"]
        roles.queryset, roles.label_from_instance = account_groups(), role_name
        roles.required = not self.is_on_server

    @property
    def is_on_server(self) -> bool:
        """True in the usual project, whose administrators manage all accounts."""
        return project_of_new_rows() == USUAL_PROJECT

    def validate_unique(self) -> None:
        """Accept an existing account, which becomes a member.

        A form about all accounts rejects it.
        """
        if self.is_on_server:
            super().validate_unique()


@never_cache
@form_view(Right.ADMINISTER)
def people(request: HttpRequest) -> HttpResponse:
    """Show the accounts, and add one.

    Its link is shown once.
    """
    acting_user: Any = request.user
    form = AccountForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            user = account_add(actor=acting_user, username=data["username"], email=data["email"], groups=data["groups"])
        except Refused as error:
            form.add_error("groups", error.message)
        else:
            if user.last_login is None:
                return _people(request, AccountForm(), added=user)
            messages.success(request, f"{user.get_username()} is a member of this project now.")
            return redirect("dashboard:people")
    return _people(request, form)


def _people(request: HttpRequest, form: AccountForm, added: User | None = None) -> HttpResponse:
    link = ""
    if added is not None:
        acting_user: Any = request.user
        link = request.build_absolute_uri(password_path(actor=acting_user, user=added))
    roles: list[Any] = list(account_groups())
    for role in roles:
        role.title = role_name(role)
    return page_of_settings(
        request,
        "people.html",
        "people",
        status=400 if form.errors else 200,
        form=form,
        people=accounts(),
        groups=roles,
        is_on_server=form.is_on_server,
        rights=list(Right),
        link=link,
        added=added,
    )


@never_cache
@post_view(to_post=[Right.ADMINISTER])
def person_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Change an account by the pressed button."""
    acting_user: Any = request.user
    user = get_object_or_404(accounts(), pk=pk)
    name, action = user.get_username(), request.POST.get("action", "")
    try:
        if action == "groups":
            account_groups_set(actor=acting_user, user=user, groups=account_groups(request.POST.getlist("groups")))
            messages.success(request, f"The roles of {name} were saved.")
        elif action == "link":
            return _people(request, AccountForm(), added=user)
        elif action in ("activate", "deactivate"):
            account_activate(actor=acting_user, user=user, is_active=action == "activate")
            messages.success(request, f"{name} can {'sign in again' if action == 'activate' else 'no longer sign in'}.")
        elif action == "delete":
            account_delete(actor=acting_user, user=user)
            messages.success(request, f"The account {name} was deleted.")
        else:
            raise Http404
    except Refused as error:
        messages.error(request, error.message)
    return redirect("dashboard:people")


class SecretForm(forms.Form):
    """A new secret."""

    name = forms.CharField(label="Name", max_length=64)
    address = forms.CharField(
        label="Address",
        max_length=1000,
        help_text="The secret is sent only to this address, such as https://api.openai.com.",
    )
    value = forms.CharField(
        label="Secret",
        max_length=LONGEST_SECRET,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="The secret is encrypted and never shown again.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"


@never_cache
@form_view(Right.BOTS)
@sensitive_post_parameters("value")
def secrets(request: HttpRequest) -> HttpResponse:
    """Show the secrets by name and address, and store one."""
    form = SecretForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            secret = secret_store(**form.cleaned_data)
        except Refused as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"“{secret.name}” was stored for {secret.address}.")
            return redirect("dashboard:secrets")
    return page_of_settings(
        request,
        "secrets.html",
        "secrets",
        status=400 if form.errors else 200,
        form=form,
        secrets=secrets_with_bots(),
        can_store=can_store_secrets(),
    )


@post_view(to_post=[Right.BOTS])
@sensitive_post_parameters("value")
def secret_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a secret's value, or delete it."""
    secret = get_object_or_404(Secret, pk=pk)
    try:
        if request.POST.get("action") == "delete":
            secret_delete(secret=secret)
            messages.success(request, f"“{secret.name}” was deleted.")
        else:
            secret_replace(secret=secret, value=request.POST.get("value", ""))
            messages.success(request, f"“{secret.name}” was replaced.")
    except Refused as error:
        messages.error(request, error.message)
    return redirect("dashboard:secrets")


@post_view(to_post=[Right.BOTS])
def secrets_again(request: HttpRequest) -> HttpResponse:
    """Encrypt all secrets with the newest key."""
    n_closed = secrets_renew()
    if n_closed:
        messages.warning(request, f"{n_closed} secrets cannot be decrypted with any key; store them again.")
    else:
        messages.success(request, "All secrets are encrypted with the newest key; you can delete the older keys.")
    return redirect("dashboard:secrets")
