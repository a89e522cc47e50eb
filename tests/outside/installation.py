"""A whole Confab in processes of its own, whose studies are made and whose tables are read by its API."""

import json
from collections.abc import Generator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.conftest import ConfabServer, start_confab
from tests.outside.orders import NAMES

ENV = {
    "CONFAB_PLUGINS": "tests.outside.told_bots",
    "CONFAB_API_RATE": "1000000/s",
    # Bots that break as often as these tests tell them to are given to participants all the same.
    "CONFAB_ASIDE_IN_A_ROW": "1000000",
    "CONFAB_ASIDE_FAILED": "1000000",
}
_TALKS = 8
"""Conversations that can be compared and marked, half of them with each of two bots."""


class Installation:
    """Studies and tables of a server, as an administrator's program reaches them."""

    def __init__(self, server: ConfabServer) -> None:
        self.server = server
        self.numbers = count(1)
        server.manage("createsuperuser", "--noinput", "--username", "ann", "--email", "a@b.org")
        made = server.manage(
            *("api_token", "make", "--user", "ann", "--name", "outside", "--json"),
            *("--rights", "read,administer,pay,private"),
        )
        token = json.loads(made.stdout)["token"]
        self.api = httpx.Client(
            base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        self.example = cache(self._example)
        self._talks_make()

    @property
    def url(self) -> str:
        return self.server.url

    def _example(self, protocol: str) -> dict[str, Any]:
        """Return the file of a protocol's example."""
        file = self.server.data_dir / f"{protocol}.yaml"
        self.server.manage("study_example", protocol, "--output", str(file))
        result: dict[str, Any] = yaml.safe_load(file.read_text())
        return result

    def _talks_make(self) -> None:
        """Store a study of rated conversations under the key `talks`."""
        file = self.server.data_dir / "talks.jsonl"
        with file.open("w") as lines:
            for number in range(_TALKS):
                texts = ["hello", f"Hello, this is talk {number}.", "how are you?", "Fine."]
                speakers = ("human", "bot") * 2
                record = {
                    "dialogue_id": f"talk-{number}",
                    "bot": NAMES[number % 2],
                    "source": "made",
                    "turns": [{"speaker": who, "text": text} for who, text in zip(speakers, texts, strict=True)],
                    "ratings": [{"rater": f"r{number}", "quality": 1 + number % 5}],
                }
                lines.write(json.dumps(record) + "\n")
        self.server.manage("import_conversations", str(file), "--study", "talks", "--json")

    def study_make(self, protocol: str, settings: Mapping[str, Any]) -> str:
        """Open a study like the protocol's example, with other settings in some of its sections; return its key."""
        file = json.loads(json.dumps(self.example(protocol)))
        for name, values in settings.items():
            if isinstance(values, Mapping):
                file[name] = {**file.get(name, {}), **values}
            else:
                file[name] = values
        file["key"] = f"{protocol.replace('_', '-')}-{next(self.numbers)}"
        response = self.api.post("/studies", params={"opens": "true"}, json=file)
        assert response.status_code == 200, response.text
        return str(file["key"])

    def table(self, key: str, name: str) -> list[dict[str, Any]]:
        """Return the rows of a study's table, with private columns."""
        response = self.api.get(f"/studies/{key}/tables/{name}", params={"include_private": "true", "format": "jsonl"})
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


def installation_start(folder: Path, vector_cache: Path) -> Generator[Installation]:
    """Run a server until the fixture that asks for it ends."""
    servers = start_confab(folder, vector_cache, ENV, with_demo=False)
    try:
        installation = Installation(next(servers))
        yield installation
        installation.api.close()
    finally:
        servers.close()
