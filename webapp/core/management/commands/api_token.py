"""`api_token make|list|revoke`: manage tokens of API clients.

`api_token make --user NAME --name WHAT [--rights read,run] [--days N]`; `api_token list`; `api_token revoke ID`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model

from chatbots.text import quote
from webapp.core.authentication import token_make, token_revoke
from webapp.core.management.base import ConfabCommand, Usage
from webapp.core.models import ApiToken
from webapp.core.rights import Right


class Command(ConfabCommand):
    help = "Create, list and revoke tokens for API clients."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", choices=["make", "list", "revoke"])
        parser.add_argument("id", type=int, nargs="?", help="id of the token to revoke")
        parser.add_argument("--user", help="user for whom the new token acts, and whose rights limit it")
        parser.add_argument("--name", help="purpose of the new token")
        parser.add_argument(
            "--rights",
            default=Right.READ.value,
            help=f"some of {','.join(right.value for right in Right)}; read is always included",
        )
        parser.add_argument("--days", type=int, help="days until the token expires (default: never)")

    def run(self, **options: Any) -> dict[str, Any]:
        if options["verb"] == "make":
            return self._make(options)
        if options["verb"] == "revoke":
            if options["id"] is None:
                raise Usage("revoke needs the id of a token; `api_token list` shows them")
            token = ApiToken.objects.filter(pk=options["id"]).first()
            if token is None:
                raise LookupError(f"there is no token {options['id']}; `api_token list` shows all tokens")
            token_revoke(token=token)
        tokens = ApiToken.objects.select_related("user")
        return {"tokens": [_plain(token) for token in tokens]}

    def _make(self, options: dict[str, Any]) -> dict[str, Any]:
        for needed in ("user", "name"):
            if options[needed] is None:
                raise Usage(f"make needs --{needed}")
        name = options["user"]
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise LookupError(f"there is no user {quote(name)}")
        rights = [right.strip() for right in options["rights"].split(",") if right.strip()]
        token, text = token_make(user=user, name=options["name"], rights=rights, days=options["days"])
        return {**_plain(token), "token": text}

    def present(self, result: dict[str, Any]) -> None:
        if "token" in result:
            self.stdout.write(f"{result['token']}\nIt is shown only once; treat it like a password.")
            return
        for token in result["tokens"] or ():
            self.stdout.write(
                f"{token['id']:>4}  {token['state']:<8}  {token['user']}  {token['name']}  "
                f"({', '.join(token['rights'])})"
            )
        if not result["tokens"]:
            self.stdout.write("There are no tokens.")


def _plain(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "name": token.name,
        "user": token.user.get_username(),
        "rights": token.rights,
        "state": "revoked" if token.revoked_at else "valid",
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }
