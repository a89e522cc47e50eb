"""Form of the page *Start*: one question about the aim, the bots, and who runs the study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db import transaction

from chatbots.huggingface import cached_language_models
from chatbots.text import is_blank
from webapp.bots.declared_bots import can_store_secrets, declared_discover
from webapp.bots.selectors import bot_entry_list, bot_name, bots_with_cost
from webapp.core.errors import Refused
from webapp.dashboard.bot_form import BotForm, bot_entry_of
from webapp.dashboard.builder.item_sources import item_sources
from webapp.jobs import queue
from webapp.jobs.kinds.bot_test import KIND, BotTestParams
from webapp.jobs.models import Job, SelfPlayRun
from webapp.studies.lifecycle import draft_create, judging_study_create
from webapp.studies.models import Study
from webapp.studies.selectors import latest_contact

PEOPLE = 8
"""Scripted participants of the first rehearsal."""
AIMS = {
    "rate": ("Rate one bot", "People chat with it and rate the chat."),
    "compare": ("Compare bots", "Each person chats with one of several bots and rates the chat."),
    "prompts": ("Compare prompts", "One model with two system prompts, compared like two bots."),
    "judge": ("Judge stored replies", "People read stored conversations and label each reply."),
}
JUDGING = "turns"
_CACHED = "cached:"
_MOST_BOTS = 50


def _prompt_widget() -> forms.Textarea:
    return forms.Textarea(attrs={"rows": 3, "dir": "auto"})


class StartForm(forms.Form):
    """Aim, bots and contact of a new study.

    Args:
        may_add_bots: whether the user may add bots; others choose existing ones.
        email: the user's address, suggested as contact if no study of the project has one.
    """

    aim = forms.ChoiceField(choices=[(name, title) for name, (title, _hint) in AIMS.items()], widget=forms.RadioSelect)
    base_url = forms.CharField(
        label="Address (base_url)",
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"placeholder": "https://api.openai.com/v1", "autocomplete": "off"}),
    )
    model = forms.CharField(label="Model", required=False, max_length=1000)
    new_key = forms.CharField(
        label="Key",
        required=False,
        max_length=5000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Encrypted, bound to this address and never shown again. Leave empty if the server needs none.",
    )
    bots = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    prompt_a = forms.CharField(label="First prompt", required=False, max_length=20_000, widget=_prompt_widget())
    prompt_b = forms.CharField(label="Second prompt", required=False, max_length=20_000, widget=_prompt_widget())
    source = forms.ChoiceField(label="Conversations from", required=False)
    organisation = forms.CharField(
        label="Organisation",
        required=False,
        max_length=200,
        help_text="Optional. Who runs the study, as participants read it.",
    )
    contact = forms.EmailField(label="Contact", max_length=254, help_text="Participants can write to this address.")

    def __init__(self, data: Any = None, *, may_add_bots: bool, email: str = "") -> None:
        known = latest_contact()
        initial = {"aim": "rate", **known, "contact": known["contact"] or email}
        super().__init__(data, initial=initial, label_suffix="")
        self.may_add_bots = may_add_bots
        entries = [entry for entry in bot_entry_list() if entry.is_offered]
        cached = cached_language_models() if may_add_bots else []
        self.n_existing = len(entries)
        fields: Any = self.fields
        fields["bots"].choices = [(entry.id, entry.name) for entry in entries] + [
            (f"{_CACHED}{model}", f"{model} (Hugging Face cache)") for model in cached
        ]
        fields["source"].choices = item_sources()
        if not may_add_bots:
            for name in ("base_url", "model", "new_key", "prompt_a", "prompt_b"):
                del self.fields[name]
            fields["aim"].choices = [choice for choice in fields["aim"].choices if choice[0] != "prompts"]
        for field in self.fields.values():
            if isinstance(field.widget, forms.widgets.Input | forms.Textarea | forms.Select):
                field.widget.attrs.setdefault("class", "input")

    @property
    def aims(self) -> list[tuple[str, str, str]]:
        """Name, title and hint of each aim."""
        choices: Any = self.fields["aim"]
        return [(name, *AIMS[name]) for name, _title in choices.choices]

    @property
    def endpoint_fields(self) -> list[forms.BoundField]:
        """The fields of a new endpoint; none without the right to add bots."""
        return [self[name] for name in ("base_url", "model", "new_key") if name in self.fields]

    def clean(self) -> dict[str, Any]:
        """Build the bots to add, and check that there are as many as the aim needs."""
        cleaned = super().clean() or self.cleaned_data
        self.existing: list[str] = []
        self.new_bots: list[tuple[str, dict[str, Any]]] = []
        aim = cleaned.get("aim")
        if aim == "judge":
            if not cleaned.get("source"):
                self.add_error("source", "Choose the conversations to judge. Import some first if there are none.")
            return cleaned
        bases = self._bases()
        if self.errors:
            return cleaned
        if aim == "prompts":
            self._add_prompts(bases)
        else:
            self.existing = [bot_id for bot_id, _kind, entry in bases if entry is None]
            self.new_bots = [(kind, entry) for _bot_id, kind, entry in bases if entry is not None]
        n = len(bases)
        if n > _MOST_BOTS or (aim in ("rate", "prompts") and n > 1):
            self.add_error("bots", f"Choose one bot, not {n}. To rate several, choose “Compare bots”.")
        elif not n:
            enter = "Enter the address and model of a bot, or choose one." if self.may_add_bots else "Choose a bot."
            self.add_error("bots", enter)
        elif aim == "compare" and n < 2:
            self.add_error("bots", "Choose one more bot to compare it with.")
        else:
            self._validate_bots()
        return cleaned

    def _bases(self) -> list[tuple[str, str, dict[str, Any] | None]]:
        """Return id, kind and form data of each bot; the data are None for an existing bot."""
        cleaned, bases = self.cleaned_data, list[tuple[str, str, dict[str, Any] | None]]()
        endpoint = {name: cleaned.get(name, "") for name in ("base_url", "model", "new_key")}
        if any(endpoint.values()):
            if not endpoint["model"]:
                self.add_error("model", "Enter the name of the model, as its provider writes it.")
            if endpoint["new_key"] and not can_store_secrets():
                self.add_error(
                    "new_key", "This server cannot store keys. Ask your administrator to set CONFAB_SECRETS_KEY."
                )
            filled = {name: value for name, value in endpoint.items() if value}
            bases.append(("", "endpoint", _data("endpoint", key="new" if endpoint["new_key"] else "", **filled)))
        for bot_id in cleaned.get("bots", ()):
            if bot_id.startswith(_CACHED):
                bases.append(("", "transformers", _data("transformers", model=bot_id.removeprefix(_CACHED))))
            else:
                bases.append((bot_id, "", None))
        return bases

    def _add_prompts(self, bases: list[tuple[str, str, dict[str, Any] | None]]) -> None:
        """Prepare a variant of the bot for each prompt."""
        prompts = [self.cleaned_data.get(name, "") for name in ("prompt_a", "prompt_b")]
        if is_blank(prompts[1]):
            self.add_error("prompt_b", "Enter the prompt that is compared with the first one.")
        elif prompts[0].strip() == prompts[1].strip():
            self.add_error("prompt_b", "Both prompts are the same. Change one of them.")
        for bot_id, kind, data in bases[:1]:
            if data is None:
                entry = bot_entry_of(bot_id)
                if entry is None:
                    self.add_error("bots", f"{bot_name(bot_id)} has no system prompt. Choose a language model.")
                    return
                kind, data = entry["kind"], _data(entry["kind"], entry)
            name = data.get("title", "").removesuffix(" (copy)") or data["model"].rstrip("/").rpartition("/")[2]
            for letter, prompt in zip("AB", prompts, strict=True):
                title = f"{name[:180]}, prompt {letter}"
                self.new_bots.append((kind, {**data, "title": title, "system_prompt": prompt}))

    def _validate_bots(self) -> None:
        """Copy the mistakes of the bots to this form's fields."""
        for kind, data in self.new_bots:
            bot_form = BotForm(data, kind=kind)
            for name, mistakes in bot_form.errors.items():
                field = {"key": "new_key"}.get(name, name)
                for mistake in mistakes:
                    if field not in self.fields or kind != "endpoint":
                        self.add_error("bots", f"{data['model']}: {mistake}")
                    elif mistake not in self.errors.get(field, ()):
                        self.add_error(field, mistake)

    def save_bots(self) -> list[str]:
        """Store the new bots, with their key once, and return the ids of all bots of the study.

        Raises:
            Refused: a bot cannot be stored.
        """
        bots, secret = list(self.existing), None
        for kind, data in self.new_bots:
            if secret is not None and data.get("key") == "new":
                data = {**data, "key": f"secret:{secret.name}", "new_key": ""}
            bot_form = BotForm(data, kind=kind)
            row = bot_form.save() if bot_form.is_valid() else None
            if row is None:
                reasons = " ".join(str(mistake) for mistakes in bot_form.errors.values() for mistake in mistakes)
                raise Refused("bad_bot", reasons)
            secret = secret or row.secret
            bots.append(row.bot_id)
        return bots


def _data(kind: str, entry: Mapping[str, Any] | None = None, **values: str) -> dict[str, Any]:
    """Return the data of a bot's form: its initial values, and these."""
    initial = BotForm(kind=kind, entry=entry).initial
    return {**{name: str(value) if value is not False else "" for name, value in initial.items()}, **values}


def start_study(*, form: StartForm, token: str, user: Any, url: str) -> tuple[Study, bool]:
    """Store the form's bots, a draft, and the job that tests the bots.

    A free rehearsal follows by itself.

    Args:
        token: token of the submitted page; submitted again, it leads to the same study.
        url: address of the server, for the scripted participants.

    Returns:
        The study, and whether it is new.

    Raises:
        Refused, ValuesError: nothing is stored.
    """
    author, aim = user.get_username(), form.cleaned_data["aim"]
    texts: dict[str, Any] = {name: form.cleaned_data[name] for name in ("organisation", "contact")}
    try:
        with transaction.atomic():
            # The unique key makes a repeated submission wait for the first one.
            job, is_new = Job.objects.get_or_create(kind=KIND, key=f"start:{token}", defaults={"created_by": user})
            if not is_new:
                if job.study is None:
                    raise Refused("gone", "The study that this page started was deleted. Reload the page.")
                return job.study, False
            if aim == "judge":
                bots, study = [], _judging_study(form.cleaned_data["source"], author, texts)
            else:
                bots = form.save_bots()
                names = ", ".join(map(bot_name, bots))
                study = draft_create(
                    protocol="chat", name=f"{AIMS[aim][0]}: {names}", bots=bots, author=author, **texts
                )
            people = 0 if bots_with_cost(bots) else PEOPLE
            job.study, job.project_id = study, study.project_id
            job.payload = BotTestParams(bots=tuple(bots), people=people, url=url).model_dump(mode="json")
            job.save(update_fields=["study", "project_id", "payload", "updated_at"])
            queue.send_on_commit(job)
    except Exception:
        declared_discover()  # this process forgets bots whose rows were rolled back
        raise
    return study, True


def _judging_study(source: str, author: str, texts: Mapping[str, Any]) -> Study:
    """Make the study that judges the conversations of a study or a run."""
    kind, _colon, name = source.partition(":")
    if kind == "run":
        run = SelfPlayRun.objects.get(pk=int(name))
        return judging_study_create(protocol=JUDGING, name=f"Judge: {run.title}", of_run=run.pk, author=author, **texts)
    study = Study.objects.get(key=name)
    language = study.values.texts.language
    return judging_study_create(
        protocol=JUDGING, name=f"Judge: {study.name}", of_study=study.key, language=language, author=author, **texts
    )


def first_job(study: Study, kind: str) -> Job | None:
    """Return the study's newest job of this kind."""
    return Job.objects.filter(kind=kind, study=study).order_by("-pk").first()
