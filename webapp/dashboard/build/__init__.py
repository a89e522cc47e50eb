"""The study builder: five steps, each with its state in words and a form that saves at every change."""

from __future__ import annotations
