"""Forms of a study's people: pay, Mechanical Turk's file, and links."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from webapp.pay.prolific import MESSAGE_MOST_CHARS
from webapp.pay.services import MOST_BONUS, REASON_MOST_CHARS, REJECTION_CATEGORIES
from webapp.studies.recruitment.links import MOST_LINK_DAYS, MOST_LINKS_AT_ONCE

_CATEGORY_TITLES = {
    "TOO_QUICKLY": "Done too quickly",
    "TOO_SLOWLY": "Took too long",
    "FAILED_INSTRUCTIONS": "Did not follow the instructions",
    "FAILED_CHECK": "Failed a check",
    "LOW_EFFORT": "Low effort",
    "MALINGERING": "Pretended",
    "NO_CODE": "No completion code",
    "BAD_CODE": "Wrong completion code",
    "NO_DATA": "No data",
    "UNSUPP_DEVICE": "Unsupported device",
    "INCOMP_LONGITUDINAL": "Did not complete all parts",
    "OTHER": "Something else",
}


class PeopleForm(forms.Form):
    """Form with the dashboard's styles."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"


class RejectForm(PeopleForm):
    """Form of a rejection: reason for the participant, and Prolific's category."""

    reason = forms.CharField(
        label="Reason, shown to the participant",
        max_length=REASON_MOST_CHARS,
        help_text="Explain what was wrong in one polite sentence.",
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Write what was wrong; the participant reads it."},
    )
    category = forms.ChoiceField(
        label="Prolific category",
        choices=[(name, _CATEGORY_TITLES[name]) for name in REJECTION_CATEGORIES],
        initial="OTHER",
        required=False,
    )

    def clean_category(self) -> str:
        """Return the category.

        If none was requested, the one for other reasons.
        """
        return self.cleaned_data["category"] or "OTHER"


class AmountField(forms.DecimalField):
    """Field for an amount in whole cents, with a single error message."""

    def clean(self, value: Any) -> Any:
        """Return the amount; raise ValidationError if it cannot be paid."""
        try:
            return super().clean(value)
        except ValidationError:
            words = "“{value}” cannot be paid. Enter an amount from {least} to {most}, such as 1.50."
            raise ValidationError(
                words.format(value=str(value or "")[:40], least=self.min_value, most=self.max_value), code="bad_amount"
            ) from None


class BonusForm(PeopleForm):
    """Form of a bonus for a visit."""

    amount = AmountField(
        min_value=Decimal("0.01"),
        max_value=MOST_BONUS,
        max_digits=8,
        decimal_places=2,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    note = forms.CharField(label="Reason for the bonus", required=False, max_length=REASON_MOST_CHARS)
    asked = forms.UUIDField(widget=forms.HiddenInput)


class MessageForm(PeopleForm):
    """Form of a message to several participants."""

    text = forms.CharField(
        label="Message",
        max_length=MESSAGE_MOST_CHARS,
        help_text="Prolific sends the message in your name and stores it. Confab deletes it once it is sent.",
        widget=forms.Textarea(attrs={"rows": 5}),
        error_messages={"required": "Write the message."},
    )
    asked = forms.UUIDField(widget=forms.HiddenInput)


class ResultsFileForm(forms.Form):
    """Mechanical Turk's results file."""

    file = forms.FileField(
        error_messages={
            "required": "Choose the results file from Mechanical Turk first.",
            "empty": "The file is empty.",
        }
    )


class LinksForm(PeopleForm):
    """Form for one-time links: number, purpose, and days of validity."""

    n = forms.IntegerField(label="Number of links", min_value=1, max_value=MOST_LINKS_AT_ONCE)
    label = forms.CharField(
        label="Purpose",
        required=False,
        max_length=100,
        help_text="For your own reference, such as the class or mailing list.",
    )
    days = forms.IntegerField(
        label="Days until they expire",
        required=False,
        min_value=1,
        max_value=MOST_LINK_DAYS,
        help_text="Leave empty for no expiry.",
    )
