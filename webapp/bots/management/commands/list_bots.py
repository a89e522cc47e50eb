"""`list_bots`: every registered bot."""

from __future__ import annotations

from typing import Any

from webapp.bots.selectors import bot_entry_list
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "List every registered bot, and why one is not available."

    def run(self, **options: Any) -> list[dict[str, Any]]:
        return [
            {
                "id": entry.id,
                "name": entry.name,
                "kind": entry.kind,
                "available": entry.available,
                "reason": entry.reason,
            }
            for entry in bot_entry_list()
        ]

    def present(self, result: list[dict[str, Any]]) -> None:
        width = max((len(entry["id"]) for entry in result), default=0)
        for entry in result:
            state = "available" if entry["available"] else f"not available: {entry['reason']}"
            self.stdout.write(f"{entry['id']:{width}}  {entry['kind']:12} {state}")
