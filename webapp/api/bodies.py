"""Bodies of calls: read as what a call takes, or refused with what that is."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from ninja.parser import Parser

from chatbots.storable import are_storable
from webapp.core.errors import Refused
from webapp.core.unstorable import WORDS

JSON = "application/json"
FORM = "multipart/form-data"


class WrongType(Exception):
    """A body is of another type than the call takes."""


class Bodies(Parser):
    """The library's parser, which reads a body only if its header says that it is what the call takes."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the content of a JSON body.

        Raises:
            WrongType: its header names another type.
            ValueError: it is no JSON.
        """
        _demand(request, JSON, "curl --json")
        return super().parse_body(request)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        """Return the values of an address or of a form.

        Raises:
            WrongType: they are a form's, and the header names another type.
            Refused: `bad_text`.
        """
        if data is not request.GET:
            _demand(request, FORM, "curl --form")
            if not are_storable([[key, *values] for key, values in data.lists()]):
                raise Refused("bad_text", WORDS)
        return super().parse_querydict(data, list_fields, request)


def _demand(request: HttpRequest, wanted: str, way: str) -> None:
    """Check the type that the header of a body names; a program that names none is believed to send the right one."""
    given = request.content_type
    if given and given != wanted:
        raise WrongType(f"The body is {given}; this call takes {wanted}, as `{way}` sends it")
