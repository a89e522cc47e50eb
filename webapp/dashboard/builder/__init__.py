"""Study builder: five steps, each with its state and a form."""

from __future__ import annotations
