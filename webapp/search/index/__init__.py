"""Search index over all conversations."""

from __future__ import annotations

from webapp.search.index.triggers import index_ensure, index_make, index_suspend, words_gone

__all__ = ["index_ensure", "index_make", "index_suspend", "words_gone"]
