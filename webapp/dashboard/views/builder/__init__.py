"""Views of the study builder."""

from __future__ import annotations
