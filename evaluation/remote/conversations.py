"""Conversations of a Confab server: found, read, starred, tagged and noted; and searches that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.remote.calls import Calls


class Conversations(Calls):
    """Conversations in studies and self-play, and the labels and notes that readers leave there.

    Each call that leaves something can be sent twice without doing more than once.
    """

    def conversations(
        self, key: str = "", q: str = "", *, run: int | None = None, **asked: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the conversations of a study or of a self-play run that a search line asks for, page by page.

        Args:
            q: as in the workbench, such as `bot:eliza quality<4 sort:quality limit:20`.
            asked: `columns`, `include_synthetic`, `without`.
        """
        where = _searched(key, run, "conversations")
        after = ""
        while True:
            page = self._get(f"{where}/conversations", q=q, after=after, limit=500, **asked)
            yield from page["items"]
            after = page["after"]
            if not after:
                return

    def conversation(self, id: str) -> dict[str, Any]:
        """Return a conversation with its turns, ratings, metrics, tags and notes."""
        return dict(self._get(f"/conversations/{id}"))

    def star(self, id: str) -> dict[str, Any]:
        """Star a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("PUT", f"/conversations/{id}/star"))

    def unstar(self, id: str) -> dict[str, Any]:
        """Remove the star of a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/star"))

    def tag(self, id: str, text: str) -> dict[str, Any]:
        """Tag a conversation; returns its star, tags and notes afterwards.

        Raises:
            ServerError: it is no tag, with what one is.
        """
        return dict(self._again("POST", f"/conversations/{id}/tags", {"text": text}))

    def untag(self, id: str, text: str) -> dict[str, Any]:
        """Remove a tag of a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/tags", text=text))

    def note(self, id: str, text: str) -> dict[str, Any]:
        """Add a note to a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("POST", f"/conversations/{id}/notes", {"text": text}))

    def note_remove(self, id: str, note: int) -> dict[str, Any]:
        """Remove a note of a conversation by the note's own id; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/notes/{note}"))

    def searches(self, key: str = "", *, run: int | None = None) -> list[dict[str, Any]]:
        """Return the searches of a study or of a self-play run that the token's person keeps."""
        return list(self._get(f"{_searched(key, run, 'searches')}/searches"))

    def search_keep(
        self,
        key: str = "",
        name: str = "",
        q: str = "",
        *,
        run: int | None = None,
        columns: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        """Keep a search line of a study or run by name, in the place of one of the same name; returns all that are
        kept.

        Args:
            columns: numbers that the list shows.
        """
        asked = {"name": name, "q": q, "columns": ",".join(columns)}
        where = _searched(key, run, "search_keep")
        return list(self._again("POST", f"{where}/searches", asked))

    def search_forget(
        self, key: str = "", name: str = "", *, run: int | None = None
    ) -> list[dict[str, Any]]:
        """Forget a search of a study or run by its name; returns those that are kept."""
        where = _searched(key, run, "search_forget")
        return list(self._again("DELETE", f"{where}/searches", name=name))


def _searched(key: str, run: int | None, call: str) -> str:
    """Return the path of the study or of the run, whichever is given.

    Raises:
        ValueError: neither is, or both are.
    """
    if bool(key) == (run is not None):
        raise ValueError(f"{call} needs a study or a run, and not both")
    return f"/studies/{key}" if key else f"/runs/{run}"
