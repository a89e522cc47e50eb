"""Kinds of job that play participants."""

from __future__ import annotations
