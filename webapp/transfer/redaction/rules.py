"""Rules that find personal data in texts, without a database.

E-mail addresses, phone numbers, web addresses, ids and card numbers follow from their form and check digits. Names are
found if the researcher lists them. A person decides about every hit, so the rules prefer a false hit to a missed one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

KINDS = {
    "email": "E-mail addresses",
    "url": "Web addresses",
    "card": "Card and account numbers",
    "id": "Ids",
    "phone": "Phone numbers",
    "name": "Names",
}
"""Kinds of personal data with their titles; where two hits overlap, the earlier kind wins."""
_REGIONS = {"en": ("US", "GB"), "de": ("DE", "AT", "CH")}
_ALL_REGIONS = tuple(region for regions in _REGIONS.values() for region in regions)


@dataclass(frozen=True, slots=True)
class Hit:
    """Personal data in a text.

    Attributes:
        start, end: position in characters.
        value: normalised form; equal values get the same placeholder.
    """

    kind: str
    start: int
    end: int
    value: str


class Rules:
    """Rules for the texts of one study.

    Args:
        names: names that the researcher lists.
        language: language code of the texts, which selects the countries of phone numbers without a country code.
    """

    def __init__(self, names: Iterable[str] = (), language: str = "") -> None:
        self.regions = _REGIONS.get(language[:2], _ALL_REGIONS)
        patterns = [r"\s+".join(map(re.escape, name.split())) for name in sorted(set(names), key=len, reverse=True)]
        patterns = [pattern for pattern in patterns if pattern]
        # A genitive s may follow: "Annas".
        self._names = re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?=s?(?!\w))", re.I) if patterns else None

    def find_hits(self, text: str) -> list[Hit]:
        """Return the hits in their order in the text, without overlaps."""
        hits: list[Hit] = []
        rest = text
        for find in (_find_emails, _find_urls, _find_cards, _find_ids, self._find_phones, self._find_names):
            for hit in find(rest):
                hits.append(hit)
                # Later rules must not see a part of this hit; the length stays, so positions stay valid.
                rest = f"{rest[: hit.start]}{' ' * (hit.end - hit.start)}{rest[hit.end :]}"
        return sorted(hits, key=lambda hit: hit.start)

    def _find_phones(self, text: str) -> Iterator[Hit]:
        if sum(character.isdigit() for character in text) < _FEWEST_DIGITS:
            return
        import phonenumbers  # its metadata take long to import

        numbers: list[tuple[int, int, str]] = []
        # With a country code, any possible number counts: the lists of valid ones lag behind.
        searches = [(region, phonenumbers.Leniency.VALID) for region in self.regions]
        searches.append((self.regions[0], phonenumbers.Leniency.POSSIBLE))
        for region, leniency in searches:
            for match in phonenumbers.PhoneNumberMatcher(text, region, leniency, _MOST_TRIES):
                is_certain = leniency == phonenumbers.Leniency.VALID or match.raw_string.startswith("+")
                if is_certain and not _DATE.fullmatch(match.raw_string):
                    numbers.append((match.start, match.end, _format_number(match.number)))
        for region in self.regions:
            for spaced in _SPACED_DIGITS.finditer(text):
                with suppress(phonenumbers.NumberParseException):
                    number = phonenumbers.parse(spaced[0].replace(" ", ""), region)
                    if phonenumbers.is_valid_number(number):
                        numbers.append((spaced.start(), spaced.end(), _format_number(number)))
        previous_end = 0
        for start, end, value in sorted(numbers, key=lambda number: (number[0], -number[1])):
            if start >= previous_end:
                previous_end = end
                yield Hit("phone", start, end, value)

    def _find_names(self, text: str) -> Iterator[Hit]:
        for match in self._names.finditer(text) if self._names is not None else ():
            yield Hit("name", match.start(), match.end(), " ".join(match[0].casefold().split()))


def _format_number(number: Any) -> str:
    import phonenumbers

    return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))


_FEWEST_DIGITS = 6
_MOST_TRIES = 1000
"""Number of groups of digits in a text that turn out to be no phone number, after which its search ends."""
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
_SPACED_DIGITS = re.compile(r"(?<!\d)0(?: \d){7,14}(?! ?\d)")

_WORD = r"[^\W_](?:[\w-]*[^\W_])?"
_GAP = r"\s{0,3}"
"""Bounded, like all repetitions that may match at many places, so that no text takes quadratic time."""
_DOT = rf"(?:{_GAP}[(\[{{]{_GAP}(?:dot|punkt|\.){_GAP}[)\]}}]{_GAP}|\s{{1,3}}(?:dot|punkt)\s{{1,3}}|\.)"
_LOCAL = r"[\w!#$%&*+/=?^`|~.'-]"
_EMAIL = re.compile(rf"(?<!{_LOCAL}){_LOCAL}+@{_WORD}(?:\.{_WORD})*\.[^\W\d_]{{2,}}(?![\w-])")
_SPOKEN_EMAIL = re.compile(
    rf"(?<![\w+-])[\w+-]+(?:{_DOT}[\w+-]+){{0,5}}"
    rf"(?:{_GAP}[(\[{{]{_GAP}(?:at|ät|@){_GAP}[)\]}}]{_GAP}{_WORD}(?:{_DOT}{_WORD})*{_DOT}[^\W\d_]{{2,}}"
    rf"|\s{{1,3}}@\s{{1,3}}{_WORD}(?:\.{_WORD})*\.[^\W\d_]{{2,}}"
    rf"|\s{{1,3}}(?:at|ät)\s{{1,3}}{_WORD}(?:\s{{1,3}}(?:dot|punkt)\s{{1,3}}{_WORD})*"
    rf"\s{{1,3}}(?:dot|punkt)\s{{1,3}}[^\W\d_]{{2,}})(?![\w-])",
    re.I,
)


def _find_emails(text: str) -> Iterator[Hit]:
    if "@" in text:
        for match in _EMAIL.finditer(text):
            start = match.end() - len(match[0].lstrip("'/=?.`"))
            yield Hit("email", start, match.end(), text[start : match.end()].lower())
    if _AT.search(text):
        for match in _SPOKEN_EMAIL.finditer(text):
            if not _EMAIL.search(match[0]):
                value = re.sub(r"\s*[(\[{]?\s*\b(?:at|ät)\b\s*[)\]}]?\s*", "@", match[0].lower())
                value = re.sub(r"\s*[(\[{]?\s*(?:\bdot\b|\bpunkt\b|\.)\s*[)\]}]?\s*", ".", value)
                yield Hit("email", match.start(), match.end(), value.replace(" ", ""))


_AT = re.compile(r"\b(?:at|ät)\b|\s@\s", re.I)
_BARE_ENDINGS = (
    "com|org|net|edu|gov|io|ai|dev|app|info|biz|eu|de|ch|uk|fr|nl|pl|se|dk|blog|shop|online|site|xyz|tv|berlin|wien"
)
"""Endings of addresses without a path; two-letter words such as "at" and "it" would find sentences without a space."""
_HOST = r"(?<![\w.@/-])(?:[a-z0-9](?:[\w-]*\w)?\.)+"
_URL = re.compile(
    r"(?<!\w)(?:https?|ftp)://[^\s<>\"]+|(?<![\w.])www\.[^\s<>\"]+"
    rf"|{_HOST}(?:{_BARE_ENDINGS})(?![\w-]|\.\w)(?:[/?#][^\s<>\"]*)?|{_HOST}[a-z]{{2,}}/[^\s<>\"]+",
    re.I,
)


def _find_urls(text: str) -> Iterator[Hit]:
    for match in _URL.finditer(text) if "." in text else ():
        address = match[0]
        while address and (address[-1] in ".,;:!?'’”»*" or (address[-1] in ")]" and _is_unbalanced(address))):
            address = address[:-1]
        is_bare = re.match(r"(?:https?|ftp)://|www\.", address, re.I) is None
        ending = re.split(r"[/?#]", address, maxsplit=1)[0].rpartition(".")[2]
        if is_bare and (ending != ending.lower() or not re.search(r"[^\W\d_]", address.partition(".")[0])):
            continue  # "ASP.NET", or a number before a word
        host, slash, path = re.sub(r"^(?:https?|ftp)://", "", address, flags=re.I).partition("/")
        yield Hit("url", match.start(), match.start() + len(address), f"{host.lower()}{slash}{path}".rstrip("/"))


def _is_unbalanced(address: str) -> bool:
    return address.count(")") > address.count("(") or address.count("]") > address.count("[")


_CARD = re.compile(r"(?<![\w.,-])[2-6](?:[ -]?\d){11,18}(?![\w-]|[.,]\d)")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![A-Z0-9])", re.I)


def _find_cards(text: str) -> Iterator[Hit]:
    for match in _IBAN.finditer(text):
        for end in _iban_ends(match[0]):
            if _is_iban(value := match[0][:end].replace(" ", "").upper()):
                yield Hit("card", match.start(), match.start() + end, value)
                break
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if _passes_luhn(digits):
            yield Hit("card", match.start(), match.end(), digits)


def _iban_ends(candidate: str) -> list[int]:
    """Return the lengths at which an account number may end, longest first; a word may follow it."""
    return [len(candidate), *(match.start() for match in reversed(list(re.finditer(" ", candidate))))]


def _is_iban(value: str) -> bool:
    """Return True if the check digits are right (ISO 13616, modulo 97)."""
    is_long_enough = 15 <= len(value) <= 34
    return is_long_enough and int("".join(str(int(c, 36)) for c in value[4:] + value[:4])) % 97 == 1


def _passes_luhn(digits: str) -> bool:
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0


_LABEL = (
    r"(?:(?:student|matriculation|patient|employee|staff|personnel|membership|member|insurance|customer|participant|"
    r"prolific|worker|national insurance|social security|tax|citizen|passport|driver['’]?s licen[cs]e|id card|nhs)"
    r"(?:['’]s)?(?:[ -]?(?:id|no\.?|number|nr\.?|code|#))"
    r"|passport"
    r"|(?:matrikel|matr\.|patienten|versicherten|versicherungs|sozialversicherungs|rentenversicherungs|krankenkassen|"
    r"personal|mitglieds|kunden|teilnehmer|steuer|ausweis|personalausweis|reisepass|führerschein|prolific|worker)"
    r"[ -]?(?:nummer|nr\.?|id|kennung|identifikationsnummer)"
    r"|personalausweis|reisepass)"
)
_ID_VALUE = r"[A-Z]{0,3}[-/]?\d[\dA-Z]*(?:[-/.]\d[\dA-Z]*)*(?: \d{2,}[A-Z]?(?!\w|[.,]\d))*"
_LABELLED = re.compile(
    rf"(?<!\w){_LABEL}(?:\s{{1,3}}(?:is|was|ist|war|lautet|no\.?|number|nr\.?|nummer)){{0,3}}"
    rf"{_GAP}[:#=]?{_GAP}({_ID_VALUE})(?!\w)",
    re.I,
)


def _has_digit_and_letter(text: str) -> bool:
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _is_worker_id(text: str) -> bool:
    return sum(c.isdigit() for c in text) >= 2 and sum(c.isalpha() for c in text) >= 4


def _is_tax_id(text: str) -> bool:
    """Return True if the check digit of a German tax id is right (ISO 7064, MOD 11,10)."""
    digits = [int(c) for c in text if c.isdigit()]
    product = 10
    for digit in digits[:10]:
        product = ((digit + product - 1) % 10 + 1) * 2 % 11
    return digits[0] > 0 and (11 - product) % 10 == digits[10]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_IDS: Sequence[tuple[re.Pattern[str], Callable[[str], bool]]] = (
    (re.compile(r"(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])", re.I), bool),
    (re.compile(r"(?<!\w)[0-9a-f]{24}(?!\w)", re.I), _has_digit_and_letter),  # Prolific
    (re.compile(r"(?<!\w)A[0-9A-Z]{11,14}(?!\w)"), _is_worker_id),  # Mechanical Turk
    (re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"), bool),  # US social security
    (re.compile(r"(?<!\w)[A-CEGHJ-PQR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"), bool),  # UK national insurance
    (re.compile(r"(?<!\w)\d{2} ?[0-3]\d[01]\d{3} ?[A-Z] ?\d{3}(?!\w)"), bool),  # German social insurance
    (re.compile(r"(?<![\w.,-])\d{2} \d{3} \d{3} \d{3}(?![\w.,-])"), _is_tax_id),
    (
        re.compile(r"(?<![\w.:])(?<!version )(?<!firmware )(?<!release )(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)", re.I),
        _is_address,
    ),
    (re.compile(r"(?<![\w:])[0-9a-f:]{3,39}(?![\w:])", re.I), lambda text: text.count(":") > 1 and _is_address(text)),
)


def _find_ids(text: str) -> Iterator[Hit]:
    if not any(character.isdigit() for character in text):
        return
    taken: list[tuple[int, int]] = []
    spans = [match.span(1) for match in _LABELLED.finditer(text)]
    spans += [match.span() for pattern, check in _IDS for match in pattern.finditer(text) if check(match[0])]
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):  # the longest first
        if all(end <= other_start or start >= other_end for other_start, other_end in taken):
            taken.append((start, end))
            yield Hit("id", start, end, re.sub(r"[\s-]", "", text[start:end]).upper())
