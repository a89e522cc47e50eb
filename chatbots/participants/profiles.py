"""Profile files of simulated participants, as a YAML list or JSON Lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatbots.corpora.dialogues import CorpusError, lines_read
from chatbots.participants.base import ParticipantProfile
from chatbots.validation import ValuesError, values_read, values_read_json, yaml_read


def profiles_read(path: Path | str) -> list[ParticipantProfile]:
    """Read the profiles of a file.

    Raises:
        ValuesError: the file is unreadable or an entry invalid; the message names file, line or entry, and field.
    """
    file = Path(path)
    read: list[tuple[str, Callable[..., ParticipantProfile], Any]]
    if file.suffix in (".yaml", ".yml"):
        entries = values_read(list[Any], yaml_read(file), subject=str(file))
        read = [(f"{file.name}, entry {number}", values_read, entry) for number, entry in enumerate(entries, start=1)]
    else:
        try:
            read = [(location, values_read_json, line) for location, line in lines_read(file)]
        except CorpusError as error:
            raise ValuesError(str(error)) from error
    profiles = []
    for location, reader, entry in read:
        try:
            profiles.append(reader(ParticipantProfile, entry, subject="the profile"))
        except ValuesError as error:
            raise ValuesError(error.mistakes, location) from error
    if not profiles:
        raise ValuesError(f"{file} contains no profile")
    return profiles
