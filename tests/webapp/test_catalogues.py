"""Each language translates all that participants may read, with the same placeholders, in files Django reads."""

import re

import pytest
from django.utils import translation
from django.utils.translation import ngettext

from tests.checks import catalogues
from webapp.participant.script_words import plural_forms
from webapp.studies.languages import translate_values
from webapp.studies.participant_texts import texts_said
from webapp.studies.protocols.base import protocols
from webapp.studies.settings import StudyValues, texts_first
from webapp.studies.study_file import study_example

BLANK = re.compile(r"%%?\(\w+\)[sdg]|<[^>]*?>|%%")
FEW = {"ar": 3}
"""Plural forms at the beginning that need no number, where none, one and two are words."""


def blanks(text: str) -> list[str]:
    """Return what is filled in, and the tags."""
    return sorted(BLANK.findall(text))


@pytest.fixture(params=catalogues.LOCALES)
def locale(request: pytest.FixtureRequest) -> str:
    return request.param


def test_everything_that_participants_read_is_translated(locale: str) -> None:
    written = catalogues.catalogue(locale)
    known = {message.id for message in written if message.id and not message.fuzzy}
    asked = {message.id for message in catalogues.extracted() if message.id}
    assert asked - known == set(), "run `make messages` and translate what is new"
    assert known - asked == set(), "run `make messages`: these are read nowhere any more"
    assert catalogues.missing(written) == []


def test_each_pattern_leaves_sources_out() -> None:
    webapp = catalogues.ROOT / "webapp"
    assert [of_researcher for of_researcher in catalogues.OF_RESEARCHERS if not any(webapp.glob(of_researcher))] == []


def test_translations_fill_in_the_same(locale: str) -> None:
    wrong = []
    for message in catalogues.catalogue(locale):
        if isinstance(message.id, tuple):
            fewest = FEW.get(locale, 1)
            for number, form in enumerate(message.string):
                expected, result = blanks(message.id[1]), blanks(form)
                is_right = set(result) <= set(expected) if number < fewest else result == expected
                wrong += [] if is_right else [form]
        elif message.id and blanks(message.id) != blanks(message.string):
            wrong.append(message.string)
    assert wrong == []


OWN_LETTERS = {"ar": re.compile("[\u0600-\u06ff]"), "de": re.compile("^[^\u0600-\u06ff]*$")}
"""What stands in each translation of a language, so that no sentence lies in the catalogue of another one."""


def test_translations_are_in_the_letters_of_their_language(locale: str) -> None:
    letters = OWN_LETTERS[locale]
    for message in catalogues.catalogue(locale):
        for form in message.string if isinstance(message.id, tuple) else [message.string]:
            has_words = re.search("[^\\W\\d_]{2}", BLANK.sub("", form))
            assert not (message.id and has_words) or letters.search(form), form


def test_django_reads_what_translators_wrote(locale: str) -> None:
    read, written = (
        {str(m.id[0] if m.pluralizable else m.id): list(m.string) for m in result if m.id}
        for result in (catalogues.compiled(locale), catalogues.catalogue(locale))
    )
    assert read == written, "run `make messages`"


def test_every_number_has_its_form(locale: str) -> None:
    n_forms, _rule = catalogues.plural_rule(locale)
    several = [m for m in catalogues.catalogue(locale) if isinstance(m.id, tuple)]
    assert {len(message.string) for message in several} == {n_forms}
    with translation.override(locale):
        forms = plural_forms("%(n)s message", "%(n)s messages")
        assert len(set(forms.values())) >= max(2, n_forms - 1)
        if locale in FEW:
            assert "%(n)s" not in ngettext("%(n)s message", "%(n)s messages", 2)


def test_studies_begin_in_their_language(locale: str) -> None:
    """No line of a new study is left in English, and another language chosen later takes all of them along."""
    english = set(catalogues.first_texts())
    for protocol in protocols:
        values = study_example(protocol.name, locale).values
        assert values.texts.language == locale
        assert not english & set(texts_said(values.to_json())), protocol.name
        back = translate_values(in_language(values, "en"), locale)
        assert english >= set(texts_said(back.to_json())), protocol.name
        assert translate_values(in_language(back, locale), "en") == values


def in_language(values: StudyValues, language: str) -> StudyValues:
    """Return the values with another language and the same texts."""
    texts = values.texts.model_copy(update={"language": language})
    return values.model_copy(update={"texts": texts})


def test_own_words_stay_when_the_language_changes() -> None:
    values = StudyValues.model_validate({"texts": {"language": "de", "title": "Chat", "thanks_text": "Danke!"}})
    assert values.texts.instructions_text.startswith("Schreiben Sie wie einem Menschen")
    told = translate_values(in_language(values, "ar"), "de")
    assert (told.texts.title, told.texts.thanks_text) == ("Chat", "Danke!")
    assert told.texts.instructions_text == texts_first("ar")["texts"]["instructions_text"]
