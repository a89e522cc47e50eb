"""The catalogues of what participants read, as .po files for translators and .mo files for Django.

    # make messages: sources -> .po (new strings empty) -> .mo; lists what is missing
    python -m tests.checks.catalogues
    # the same, and prints the entries without a translation; a language that is new gets its folder
    python -m tests.checks.catalogues de

Strings are taken from the sources by Babel; those in templates after Django has made Python of them. The texts that
new studies begin with are asked of the studies. The pages of researchers are English and stand in no catalogue, so
sources that they alone read are left out here.
"""

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from io import BytesIO
from pathlib import Path

import django
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.conf import settings
from django.utils import translation
from django.utils.translation import to_locale
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "webapp" / "locale"
LOCALES = [code for code, _name in settings.LANGUAGES if not code.startswith("en")]

SOURCES = ("core", "conversations", "ratings", "studies", "participant")
"""Folders of `webapp` in which there are sentences for participants."""
OF_RESEARCHERS = (
    *("*/admin.py", "*/apps.py", "*/models.py", "*/models/*", "*/management/*", "*/flags/*", "*/migrations/*"),
    *("core/[!mtv]*", "core/authentication.py", "core/templates/core/forbidden.html"),
    *("core/templates/core/locked_out.html", "core/templates/core/login.html", "conversations/bot_*.py"),
    *("conversations/imported_sets.py", "conversations/erasure.py", "ratings/flag_selectors.py"),
    *("ratings/selectors.py", "studies/attention_checks.py", "studies/validation/*", "studies/versions.py"),
    *("studies/lifecycle.py", "studies/items.py", "studies/marking_settings.py"),
    *("studies/protocol_settings.py", "studies/assignment/capacity.py", "studies/reply_filters/*"),
    *("studies/recruitment/settings.py", "participant/kinds/*", "participant/simulated/*"),
)
"""What stands there and is never shown to a participant."""
KEYWORDS: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("_", "__", "gettext", "gettext_lazy", "gettext_noop"), None),
    **dict.fromkeys(("ngettext", "ngettext_lazy", "plural_forms"), (1, 2)),
}


def sources() -> Iterator[Path]:
    """Return the files in which there may be sentences for participants."""
    webapp = ROOT / "webapp"
    for folder in SOURCES:
        for path in sorted((webapp / folder).rglob("*")):
            name = path.relative_to(webapp).as_posix()
            if path.suffix in (".py", ".html") and not any(fnmatch(name, pattern) for pattern in OF_RESEARCHERS):
                yield path


@cache
def extracted() -> Catalog:
    """Return every string that participants may read, with where it stands."""
    catalog = Catalog(charset="utf-8")
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            text = _python_of(text)
        name = path.relative_to(ROOT).as_posix()
        for line, message, comments, _context in extract("python", BytesIO(text.encode()), KEYWORDS, ["Translators:"]):
            catalog.add(message, locations=[(name, line)], auto_comments=comments)
    for text in first_texts():
        catalog.add(text, locations=[("webapp/studies/questions.py", 1)])
    for text in kinds_deleted():
        catalog.add(text, locations=[("webapp/studies/privacy/consent.py", 1)])
    for text in reasons_of_reports():
        catalog.add(text, locations=[("webapp/conversations/models.py", 1)])
    return catalog


def reasons_of_reports() -> list[str]:
    """Return the reasons for which a participant may report a reply; the rest of a table is for researchers."""
    from webapp.conversations.models import ReplyReport

    with translation.override(None):
        return [str(label) for label in ReplyReport.Reason.labels]


def kinds_deleted() -> list[str]:
    """Return what the page for withdrawing names of what will be deleted; each app says it of its own tables."""
    from webapp.studies.privacy import erasure_kinds

    with translation.override(None):
        return [str(kind.title) for kind in erasure_kinds().values() if not kind.for_pay]


def first_texts() -> list[str]:
    """Return the lines that studies begin with, and those of ready-made and of new questions and checks."""
    from webapp.dashboard.builder.questions import NEW_KINDS, question_new
    from webapp.studies.participant_texts import texts_said
    from webapp.studies.ready_made import QUESTION_SETS, READY_MADE
    from webapp.studies.study_file import default_lines

    ready = [question.to_plain() for question_set in QUESTION_SETS for question in question_set.questions]
    new = [*(question_new(kind, "en").to_plain() for kind in NEW_KINDS), *READY_MADE["entries"].values()]
    return sorted(default_lines() | set(texts_said([*ready, *new])))


def _python_of(template: str) -> str:
    """Return a template as Python calls of gettext, without the indentation that Python would not understand."""
    return re.sub(r"(?m)^[ \t]+", "", templatize(template))


def folder_of(locale: str) -> Path:
    """Return the folder of a language's two files."""
    return FOLDER / to_locale(locale) / "LC_MESSAGES"


def plural_rule(locale: str) -> tuple[int, str]:
    """Return how many plural forms a language has, and their rule, as Django's own catalogue says."""
    own = Path(django.__file__).parent / "conf" / "locale" / to_locale(locale)
    with (own / "LC_MESSAGES" / "django.mo").open("rb") as file:
        result = read_mo(file)
    return result.num_plurals, result.plural_expr


def catalogue(locale: str) -> Catalog:
    """Return what translators have written; an empty one where there is no file yet."""
    path = folder_of(locale) / "django.po"
    if path.exists():
        with path.open("rb") as file:
            return read_po(file, locale=locale, charset="utf-8")
    return Catalog(locale=locale, charset="utf-8")


def compiled(locale: str) -> Catalog:
    """Return what Django reads."""
    with (folder_of(locale) / "django.mo").open("rb") as file:
        return read_mo(file)


def missing(result: Catalog) -> list[str]:
    """Return the strings without a translation, or without one of its plural forms."""
    return [str(message.id) for message in result if message.id and not all(_texts(message.string))]


def _texts(string: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return string if isinstance(string, tuple) else (string or "",)


def update(locale: str) -> Catalog:
    """Bring a language's .po file up to the sources, and its .mo file up to that. Returns the catalogue.

    A string that is new has no translation, one that is gone is left out; nothing is guessed.
    """
    result = catalogue(locale)
    result.update(extracted(), no_fuzzy_matching=True)
    result.obsolete.clear()
    result._num_plurals, result._plural_expr = plural_rule(locale)
    result.project, result.version = "Confab", ""
    result.header_comment = f"# What participants read, in {result.locale.english_name}."
    write(locale, result)
    return result


def write(locale: str, result: Catalog) -> None:
    """Write a language's .po file, and the .mo file that Django reads."""
    folder_of(locale).mkdir(parents=True, exist_ok=True)
    with (folder_of(locale) / "django.po").open("wb") as file:
        write_po(file, result, width=100, include_lineno=False, sort_by_file=True)
    with (folder_of(locale) / "django.mo").open("wb") as file:
        write_mo(file, result)


def main(shown: list[str]) -> int:
    """Update every catalogue, and make those that are named and new. Returns 1 if translations are missing."""
    n_missing = 0
    for locale in dict.fromkeys([*LOCALES, *shown]):
        result = update(locale)
        left = missing(result)
        n_missing += len(left)
        print(f"{locale}: {len(result)} strings, {len(left)} without a translation")
        if locale in shown:
            for message in left:
                print(f"  {message!r}")
    return 1 if n_missing else 0


if __name__ == "__main__":
    django.setup()
    sys.exit(main(sys.argv[1:]))
