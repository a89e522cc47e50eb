"""Form of a bot: fields for its kind's options, errors of `bots.yaml`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.db import transaction
from django.utils.text import capfirst

from chatbots.bots.base import Bot
from chatbots.registry import bots as registry
from chatbots.validation import Mistake, ValuesError
from chatbots.yaml_registry import ConfiguredBot, bot_kinds
from webapp.bots.declared_bots import can_store_secrets, declared_bot_make, declared_bot_save, is_visible, secret_store
from webapp.bots.models import DeclaredBot, Secret
from webapp.core.errors import Refused
from webapp.core.keys import first_free_key, key_from_name
from webapp.core.plain_yaml import NotPlain, plain_read, plain_text
from webapp.core.project_scope import active_project
from webapp.studies.models import Study

_SAMPLING = ("system_prompt", "temperature", "top_p", "max_new_tokens", "window")
FIELDS = {
    "endpoint": ("base_url", "model", *_SAMPLING, "price_in", "price_out", "max_cost"),
    "transformers": ("model", "allow_download", *_SAMPLING, "top_k"),
    "gguf": ("model", *_SAMPLING, "top_k"),
}
"""Options with their own field; all others are listed under “Further parameters”."""
KIND_TITLES = {"endpoint": "An endpoint", "transformers": "A Hugging Face or local model", "gguf": "A GGUF file"}
_TEXTS = {"base_url", "model", "system_prompt"}
_LABELS = {
    "base_url": "Address",
    "max_new_tokens": "Maximum reply length in tokens",
    "window": "Number of turns in the context",
}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def studies_collecting_with(bot_id: str) -> list[Study]:
    """Return the studies that assign this bot to participants now.

    Studies of other projects are included if the bot is shared.
    """
    return [study for study in Study.everywhere.filter(state=Study.State.COLLECTING) if bot_id in study.bots]


def studies_named(studies: Collection[Study]) -> str:
    """Return names of studies for a message.

    Studies of other projects are not named.
    """
    project = active_project()
    own = [f"“{study.name}”" for study in studies if project in (None, study.project_id)]
    n_elsewhere = len(studies) - len(own)
    if n_elsewhere:
        own.append("a study of another project" if n_elsewhere == 1 else f"{n_elsewhere} studies of other projects")
    return ", ".join(own)


def bot_entry_of(bot_id: str) -> dict[str, Any] | None:
    """Return kind, params, title and secret of a bot, to edit or copy.

    None for a bot that the form cannot describe.
    """
    row = DeclaredBot.objects.select_related("secret").filter(bot_id=bot_id).first()
    if row is not None:
        if active_project() not in (None, row.project_id):  # the bot is shared, its secret is not
            return None
        return {"kind": row.kind, "params": row.params, "title": row.title, "secret": row.secret}
    bot = registry.get(bot_id) if bot_id in registry and is_visible(bot_id) else None
    if not isinstance(bot, ConfiguredBot) or bot.kind not in FIELDS or not hasattr(bot, "options"):
        return None
    params = bot.options.model_dump(mode="json", exclude_unset=True)
    return {"kind": bot.kind, "params": params, "title": bot.title, "secret": None}


class BotForm(forms.Form):
    """A new bot, or a change of one.

    Args:
        kind: a key of `FIELDS`.
        entry: initial values, as returned by `bot_entry_of`.
        row: the bot to change; None for a new one.
    """

    title = forms.CharField(label="Name", max_length=200, required=False, help_text="Shown to researchers only.")
    bot_id = forms.CharField(
        label="Id",
        max_length=64,
        required=False,
        help_text="Identifies the bot in commands, files and URLs: lower-case letters, digits and hyphens. Leave it "
        "empty to derive it from the name.",
    )
    key = forms.ChoiceField(label="Key", required=False)
    new_key = forms.CharField(
        label="New key",
        required=False,
        strip=True,
        max_length=5000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="The key is encrypted, bound to this address and never shown again.",
    )
    more = forms.CharField(
        label="Further parameters",
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "input mono"}),
        help_text='One per line, as in bots.yaml, for example “stop: ["User:"]”.',
    )

    def __init__(
        self, data: Any = None, *, kind: str, entry: Mapping[str, Any] | None = None, row: DeclaredBot | None = None
    ) -> None:
        super().__init__(data, label_suffix="", initial=_initial(kind, entry, row))
        self.kind, self.row = kind, row
        if row is not None:
            del self.fields["bot_id"]
        if kind != "endpoint":
            del self.fields["key"], self.fields["new_key"]
        else:
            key: Any = self.fields["key"]
            key.choices = [("", "none"), *_key_choices()]
        options = bot_kinds.get(kind).options.model_fields
        for name in FIELDS[kind]:
            self.fields[name] = _field(name, options[name])
        for field in self.fields.values():
            if isinstance(field.widget, forms.TextInput | forms.Textarea | forms.Select):
                field.widget.attrs.setdefault("class", "input")
        self.order_fields(["title", "bot_id", "base_url", "model", "key", "new_key", *FIELDS[kind], "more"])

    @property
    def main(self) -> list[forms.BoundField]:
        """The fields above the fold: name, address, model, key and prompt."""
        names = ("title", "bot_id", "base_url", "model", "allow_download", "key", "new_key", "system_prompt")
        return [self[name] for name in names if name in self.fields]

    @property
    def rest(self) -> list[forms.BoundField]:
        """The fields below it."""
        main_names = {field.name for field in self.main}
        return [self[name] for name in self.fields if name not in main_names]

    def clean_bot_id(self) -> str:
        """Return the id; if it was left empty, a free one derived from the name or else the model."""
        bot_id: str = self.cleaned_data["bot_id"]
        if bot_id:
            return bot_id
        model = str(self.data.get("model", "")).rstrip("/").rpartition("/")[2]
        key = key_from_name(self.cleaned_data.get("title", ""), 60) or key_from_name(model, 60) or "bot"
        return first_free_key(key, {*registry.names(), *DeclaredBot.everywhere.values_list("bot_id", flat=True)})

    @property
    def bot_id_meant(self) -> str:
        """Bot id, which cannot be changed."""
        return self.row.bot_id if self.row is not None else str(self.cleaned_data.get("bot_id", ""))

    def clean(self) -> dict[str, Any]:
        """Build the bot and assign errors to their fields."""
        self.bot: Bot | None = None
        self.secret: Secret | None = None
        try:
            extra_params = plain_read(self.cleaned_data.get("more", "")) or {}
        except NotPlain as error:
            self.add_error("more", capfirst(str(error)))
            extra_params = {}
        if not isinstance(extra_params, dict):
            self.add_error("more", "Write one parameter per line, for example “top_k: 20”.")
            extra_params = {}
        if twice := [str(name) for name in extra_params if name in FIELDS[self.kind]]:
            self.add_error("more", f"{', '.join(twice)} has a separate field.")
        self.params = {**{str(name): value for name, value in extra_params.items()}, **self._own_params()}
        key = self._take_key()
        try:
            self.bot = declared_bot_make(
                bot_id=self.bot_id_meant,
                kind=self.kind,
                title=self.cleaned_data.get("title", ""),
                params=self.params,
                secret=self.secret,
                key=key,
            )
        except ValuesError as error:
            self._add_mistakes(error.mistakes)
        return self.cleaned_data

    def _own_params(self) -> dict[str, Any]:
        """Return the options that were filled in, numbers as numbers."""
        filled_params = {}
        for name in FIELDS[self.kind]:
            value = self.cleaned_data.get(name, "")
            if isinstance(value, str) and name not in _TEXTS:
                value = _number(value)
            if value != "" and value is not False:
                filled_params[name] = value
        return filled_params

    def _take_key(self) -> str | None:
        """Use the chosen key; return a new one that is not stored yet."""
        way, _colon, name = self.cleaned_data.get("key", "").partition(":")
        if way == "env":
            self.params["api_key_env"] = name
        elif way == "secret":
            self.secret = Secret.objects.filter(name=name).first()
        elif way == "new":
            if key := self.cleaned_data.get("new_key", ""):
                return str(key)
            self.add_error("new_key", "Enter the key, or choose another one under “Key”.")
        return None

    def _add_mistakes(self, mistakes: tuple[Mistake, ...]) -> None:
        known = {"id": "bot_id", "name": "title", "secret": "key", "params.api_key_env": "key"}
        for mistake in mistakes:
            name = known.get(mistake.path) or mistake.path.removeprefix("params.").partition("[")[0]
            if name not in self.fields:
                name = "more" if mistake.path.startswith("params") else ""
            if name and self.has_error(name):
                continue
            self.add_error(name or None, capfirst(mistake.message.replace("params.", "")) + ".")

    def save(self) -> DeclaredBot | None:
        """Store the bot with its new key.

        If it is refused, add an error to the form and return None.
        """
        if self.row is not None and self.bot is not None and self.row.bot_id in registry:
            using = studies_collecting_with(self.row.bot_id)
            if using and registry.get(self.row.bot_id).identity.key != self.bot.identity.key:
                names = ", ".join(f"“{study.name}”" for study in using)
                self.add_error(None, f"{names} is collecting with this bot. Duplicate the bot, or pause the study.")
                return None
        bot_id = self.bot_id_meant
        try:
            with transaction.atomic():
                if self.cleaned_data.get("key") == "new":
                    name = _free_secret_name(bot_id)
                    address = str(self.params.get("base_url") or self["base_url"].initial)
                    self.secret = secret_store(name=name, address=address, value=self.cleaned_data["new_key"])
                return declared_bot_save(
                    bot_id=bot_id,
                    kind=self.kind,
                    title=self.cleaned_data["title"],
                    params=self.params,
                    secret=self.secret,
                    row=self.row,
                )
        except Refused as error:
            self.add_error("new_key", error.message)
        except ValuesError as error:
            self._add_mistakes(error.mistakes)
        return None


def _initial(kind: str, entry: Mapping[str, Any] | None, row: DeclaredBot | None) -> dict[str, Any]:
    options = bot_kinds.get(kind).options.model_fields
    defaults = {name: options[name].default for name in FIELDS[kind] if not options[name].is_required()}
    initial = {name: "" if value is None else value for name, value in defaults.items()}
    if entry is None:
        return initial
    params = dict(entry["params"])
    variable = params.pop("api_key_env", "")
    initial |= {name: params.pop(name) for name in FIELDS[kind] if name in params}
    if variable:
        initial["key"] = f"env:{variable}"
    elif entry["secret"] is not None:
        initial["key"] = f"secret:{entry['secret'].name}"
    initial["more"] = plain_text(params) if params else ""
    initial["title"] = entry["title"] if row is not None else f"{entry['title']} (copy)"[:200]
    return initial


def _key_choices() -> list[tuple[str, str]]:
    choices = [(f"secret:{secret.name}", f"{secret.name}, for {secret.address}") for secret in Secret.objects.all()]
    choices += [(f"env:{name}", f"the variable {name}") for name in settings.CONFAB_BOT_KEY_VARIABLES]
    return [("new", "a new one"), *choices] if can_store_secrets() else choices


def _field(name: str, option: Any) -> forms.Field:
    label = _LABELS.get(name) or capfirst(name.replace("_", " "))
    about = capfirst(str(option.description or "").replace("`", ""))
    if option.annotation is bool:
        return forms.BooleanField(label="Download it when it is first loaded", required=False)
    if name == "system_prompt":
        widget = forms.Textarea(attrs={"rows": 4, "dir": "auto"})
        return forms.CharField(label=label, required=False, max_length=20_000, widget=widget, help_text=about)
    return forms.CharField(label=label, required=False, max_length=1000, help_text=about)


def _number(text: str) -> Any:
    """Parse a field's number.

    Other texts stay unchanged for the validation.
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _free_secret_name(bot_id: str) -> str:
    names = set(Secret.objects.filter(name__startswith=bot_id[:60]).values_list("name", flat=True))
    candidates = [bot_id, *(f"{bot_id[:60]}-{n}" for n in range(2, 1000))]
    return next(name for name in candidates if name not in names)
