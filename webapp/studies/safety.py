"""Safety net for what participants write: the shipped phrases and the check of one message.

Phrases find plain wording only: they miss whatever is said in other words, and also match quotes and jokes. A match
shows the study's helpline text and tells the researchers; it never excludes anyone.
"""

from __future__ import annotations

import logging

from webapp.studies.reply_filters.base import FilterInput, any_of, reply_filters
from webapp.studies.settings import StudyValues

logger = logging.getLogger(__name__)

PHRASES = "phrases"
"""Source of a match: one of the phrases."""

SHIPPED_PHRASES: dict[str, tuple[str, ...]] = {
    "en": (
        "kill myself",
        "killing myself",
        "end my life",
        "take my own life",
        "end it all",
        "want to die",
        "wanna die",
        "wish I was dead",
        "wish I were dead",
        "better off dead",
        "better off without me",
        "no reason to live",
        "don't want to live",
        "don't want to be alive",
        "can't go on living",
        "suicide",
        "suicidal",
        "hurt myself",
        "hurting myself",
        "harm myself",
        "cut myself",
        "cutting myself",
        "self-harm",
        "self harm",
        "overdose",
    ),
    "de": (
        "mich umbringen",
        "bringe mich um",
        "mich töten",
        "mir das Leben nehmen",
        "mein Leben beenden",
        "Schluss machen mit allem",
        "nicht mehr leben",
        "will sterben",
        "möchte sterben",
        "wäre ich tot",
        "wäre lieber tot",
        "lebensmüde",
        "keinen Sinn mehr im Leben",
        "ohne mich besser dran",
        "Selbstmord",
        "Suizid",
        "suizidal",
        "Selbstverletzung",
        "mich selbst verletzen",
        "verletze mich selbst",
        "ritze mich",
        "mich ritzen",
        "Überdosis",
    ),
}
"""Phrases about suicide and self-harm, by language; used where a study lists none of its own."""


def phrases_watched(values: StudyValues) -> dict[str, tuple[str, ...]]:
    """Return the phrases for each language that the study offers: its own, or the shipped ones; perhaps none."""
    distress_phrases = values.safety.distress_phrases
    return {code: distress_phrases.get(code) or SHIPPED_PHRASES.get(code, ()) for code in values.texts.offered}


def languages_unwatched(values: StudyValues) -> list[str]:
    """Return the offered languages in which no message is watched."""
    if values.safety.distress_filter:
        return []
    return [code for code, phrases in phrases_watched(values).items() if not phrases]


def lines_without_helpline(values: StudyValues) -> dict[str, list[str]]:
    """Return the lines of the helpline text that lack a translation, by offered language."""
    lines = [line for line in values.safety.helpline_text.splitlines() if line.strip()]
    translated = {code: values.texts.translations.get(code, {}) for code in values.texts.offered[1:]}
    missing = {code: [line for line in lines if not known.get(line)] for code, known in translated.items()}
    return {code: lines for code, lines in missing.items() if lines}


def distress_source(text: str, values: StudyValues) -> str:
    """Return the source of signs of distress in a message: `PHRASES`, or the filter's name; empty if there are none.

    A filter that fails is logged and finds nothing: the message must be stored.
    """
    if not values.safety.watches_messages:
        return ""
    phrases = tuple(phrase for phrases in phrases_watched(values).values() for phrase in phrases)
    pattern = any_of(phrases)
    if pattern is not None and pattern.search(text.replace("’", "'")):
        return PHRASES
    name = values.safety.distress_filter
    if not name:
        return ""
    try:
        is_match = reply_filters.get(name).find(text, FilterInput(values)) is not None
    except Exception as error:  # a plug-in's filter may raise any exception
        logger.warning("a message was not checked: the filter %s failed: %s: %s", name, type(error).__name__, error)
        return ""
    return name if is_match else ""
