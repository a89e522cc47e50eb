"""Shapes of what is decided on the pay screen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from webapp.pay.services import MOST_BONUS, REASON_MOST_CHARS, REJECTION_CATEGORIES

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
    "INCOMP_LONGITUDINAL": "Did not do all parts",
    "OTHER": "Something else",
}


class RejectForm(forms.Form):
    """Form of a rejection: reason for the participant, and Prolific's category."""

    use_required_attribute = False
    """Approve stands in the same form: a browser would not send it without a reason."""

    reason = forms.CharField(
        label="Reason, if you reject",
        max_length=REASON_MOST_CHARS,
        widget=forms.Textarea(
            attrs={
                "class": "input",
                "rows": 3,
                "id": "c-reason",
                "placeholder": "Say what was wrong in one kind sentence.",
                "aria-describedby": "c-reason-hint",
            }
        ),
        error_messages={"required": "Write what was wrong; the person reads it."},
    )
    category = forms.ChoiceField(
        label="What Prolific files it under",
        choices=[(name, _CATEGORY_TITLES[name]) for name in REJECTION_CATEGORIES],
        initial="OTHER",
        required=False,
        widget=forms.Select(attrs={"class": "input", "id": "c-category"}),
    )

    def clean_category(self) -> str:
        """Return the category; where none was asked for, that for everything else."""
        return self.cleaned_data["category"] or "OTHER"


class AmountField(forms.DecimalField):
    """An amount of money in whole cents; whatever is none is told by one sentence that names it."""

    def clean(self, value: Any) -> Any:
        """Return the amount.

        Raises:
            ValidationError: it cannot be paid.
        """
        try:
            return super().clean(value)
        except ValidationError:
            words = "“{value}” cannot be paid: an amount is from {least} to {most}, as 1.50."
            raise ValidationError(
                words.format(value=str(value or "")[:40], least=self.min_value, most=self.max_value),
                code="bad_amount",
            ) from None


class BonusForm(forms.Form):
    """Form of a bonus for a visit."""

    amount = AmountField(
        label="Amount",
        min_value=Decimal("0.01"),
        max_value=MOST_BONUS,
        max_digits=8,
        decimal_places=2,
        widget=forms.TextInput(
            attrs={
                "class": "input",
                "inputmode": "decimal",
                "id": "c-amount",
                "autocomplete": "off",
            }
        ),
    )
    note = forms.CharField(
        label="What it is for",
        required=False,
        max_length=REASON_MOST_CHARS,
        widget=forms.TextInput(attrs={"class": "input", "id": "c-note"}),
    )
    asked = forms.UUIDField(widget=forms.HiddenInput)


class ResultsFileForm(forms.Form):
    """Mechanical Turk's results file."""

    file = forms.FileField(
        error_messages={
            "required": "Choose the results file of Mechanical Turk first.",
            "empty": "The file is empty.",
        }
    )
