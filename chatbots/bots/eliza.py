"""Rule-based bot in the style of ELIZA, with its own script (`eliza.yaml`).

Weizenbaum (1966), "ELIZA: A Computer Program for the Study of Natural Language Communication between Man
and Machine", CACM 9(1): the keyword with the highest rank wins, its pattern takes the sentence
apart, a template reassembles it with "my" and "your" swapped, and the bot returns to an earlier
statement when nothing else matches. Differences: the memory is read from the conversation, since a
bot keeps no state; a template is not repeated in a conversation as long as another one
is left; and the script answers questions to the bot instead of always asking back.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from chatbots.bots.base import BotDefaults
from chatbots.conversation import Conversation
from chatbots.english_rules import split_clauses, swap_pronouns
from chatbots.registry import register_bot

SCRIPT = Path(__file__).with_name("eliza.yaml")

_WEAK = 1
"""Matches up to this rank may be replaced by a reply to an earlier message."""
_LONG = 70
"""Minimum number of words of a text that counts as "a lot at once"."""
_MAX_GROUP = 9
"""Maximum number of words to quote back; more would sound like an echo."""

_SLOT = re.compile(r"\{(\d)\}")
_GOVERNS_NOUN = re.compile(r"\b(?:about|of|for|with|by|being|As for|favourite|on|your|up)[ ,]*$")
_UNQUOTABLE = {"that", "this", "it", "so", "to", "you", "your", "i", "not", "me", "there", "one", "some"}


@dataclass(frozen=True)
class _Template:
    text: str

    @cached_property
    def shape(self) -> re.Pattern[str]:
        """Pattern that matches every reply made from this template."""
        parts = _SLOT.split(self.text)[::2]
        return re.compile(".+?".join(re.escape(part) for part in parts), re.IGNORECASE)

    def filled(self, groups: Sequence[str | None]) -> str | None:
        """Return the reply; None if a group is missing or would read badly."""
        text = self.text
        for slot in _SLOT.finditer(self.text):
            number = int(slot[1])
            group = swap_pronouns(groups[number - 1] or "") if number <= len(groups) else ""
            words = group.lower().split()
            if not words or len(words) > _MAX_GROUP or (len(words) == 1 and words[0] in _UNQUOTABLE):
                return None
            if words[0] == "to" and _GOVERNS_NOUN.search(self.text[: slot.start()]):
                return None
            text = text.replace(slot[0], group)
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class _Rule:
    key: str
    rank: int
    patterns: tuple[re.Pattern[str], ...]
    say: tuple[_Template, ...]
    later: tuple[_Template, ...] = ()
    question: bool = False
    after_question: bool = False


@dataclass(frozen=True, slots=True)
class _Match:
    rule: _Rule
    groups: tuple[str | None, ...]


@dataclass(frozen=True)
class ElizaScript:
    """The parsed script: rules by descending rank, and replies for special cases."""

    rules: tuple[_Rule, ...]
    special: Mapping[str, tuple[_Template, ...]] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    english: frozenset[str] = frozenset()

    def matches(self, text: str, after_question: bool) -> list[_Match]:
        """Return one match per applicable rule, best first.

        For equal ranks, the latest clause first.
        """
        parts = split_clauses(text)[::-1]
        matches = []
        for rule in self.rules:
            if rule.after_question and not after_question:
                continue
            for clause in parts:
                if rule.question and not clause.asks:
                    continue
                hit = next((m for p in rule.patterns if (m := p.search(clause.text))), None)
                if hit:
                    matches.append(_Match(rule, hit.groups()))
                    break
        return matches


@lru_cache(maxsize=1)
def _script_text() -> str:
    return SCRIPT.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def script_read() -> ElizaScript:
    """Parse and compile the script, once per process."""
    import yaml

    data: dict[str, Any] = yaml.load(_script_text(), Loader=yaml.CSafeLoader)
    words = {name: "|".join(map(re.escape, group)) for name, group in data["words"].items()}

    def compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(re.sub(r"@(\w+)", lambda m: f"(?:{words[m[1]]})", pattern), re.IGNORECASE)

    def templates(texts: Iterable[str]) -> tuple[_Template, ...]:
        return tuple(_Template(text) for text in texts)

    rules = [
        _Rule(
            key=rule["key"],
            rank=rule["rank"],
            patterns=tuple(compiled(pattern) for pattern in rule["match"]),
            say=templates(rule["say"]),
            later=templates(rule.get("later", ())),
            question=rule.get("question", False),
            after_question=rule.get("after_question", False),
        )
        for rule in data["rules"]
    ]
    rules.sort(key=lambda rule: -rule.rank)
    return ElizaScript(
        rules=tuple(rules),
        special={name: templates(texts) for name, texts in data["special"].items()},
        foreign=frozenset(data["languages"]["foreign"].split()),
        english=frozenset(data["languages"]["english"].split()),
    )


_HAPPY = set("😀😃😄😁😆😅😂🤣🙂😊😇😉😎🥳🤩😺👍🎉☺😋😛😜🤗🙌✨")
_SAD = set("😢😭😞😔😟🙁☹😕😣😖😫😩😿💔😥😓👎😡😠🤬😰😨😱🥺")
_LOVE = set("❤😍🥰😘💕💖💗💙💚💛💜🧡😻💞💓🖤🤍💘")


def _special_kind(script: ElizaScript, text: str) -> str | None:
    """Return the kind of special reply if no rule matches, or None."""
    letters = [char for char in text if char.isalpha()]
    if not letters:
        for kind, signs in (("sad", _SAD), ("love", _LOVE), ("happy", _HAPPY)):
            if any(char in signs for char in text):
                return f"emoji_{kind}"
        if any(ord(char) > 0x2190 for char in text):
            return "emoji"
        if re.search(r"[:;=]-?[)D]", text):
            return "emoji_happy"
        if re.search(r"[:;=]'?-?[(/|]", text):
            return "emoji_sad"
        return None if re.search(r"\d", text) else "empty"
    if sum(char.isascii() or "À" <= char <= "ɏ" for char in letters) < len(letters) / 2:
        return "foreign"
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", text.lower())
    n_foreign = sum(word in script.foreign for word in words)
    if n_foreign >= max(1, 0.3 * len(words)) and n_foreign > sum(word in script.english for word in words):
        return "foreign"
    if len(words) == 1 and re.search("[^aeiouyà-ÿ]{6}|^[^aeiouyà-ÿ]{5,}$", words[0]):
        return "unreadable"
    return None


@register_bot
class ElizaBot(BotDefaults):
    """Listens, turns sentences round and asks back, by keyword rules."""

    name = "eliza"
    title = "Eliza (rules)"
    description = "Keyword rules in the style of Weizenbaum's ELIZA (1966), with Confab's own script."
    kind = "rules"
    capacity = 256
    version = "1"

    @property
    def params(self) -> dict[str, Any]:
        return {"script": hashlib.sha256(_script_text().encode()).hexdigest()[:16]}

    def load(self, device: str) -> None:
        script_read()

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Return a reply for each context, as `reply` does."""
        return [reply(script_read(), context) for context in contexts]


def reply(script: ElizaScript, context: Conversation) -> str:
    """Return a reply to the participant's messages since the last reply."""
    rng = random.Random(context.reply_seed)
    dialogue = _Dialogue.from_context(context)
    for candidates in _candidates(script, dialogue, rng):
        fresh = [text for text in candidates if text and text not in dialogue.texts]
        if fresh:
            return rng.choice(fresh)
    # Every template has been used: take the least recently used ones.
    texts = [template.text for template in script.special["none"]]
    last_used = {text: i for i, text in enumerate(dialogue.bot_texts)}
    return min(texts, key=lambda text: last_used.get(text, -1))


@dataclass(frozen=True)
class _Dialogue:
    """A conversation as the rules see it."""

    now: str
    """Messages since the bot's last turn."""
    before: tuple[str, ...]
    """Earlier turns of the participant, oldest first."""
    bot_texts: tuple[str, ...]
    texts: tuple[str, ...]
    """All turns of both speakers."""

    @classmethod
    def from_context(cls, context: Conversation) -> _Dialogue:
        turns = list(context.turns)
        now: list[str] = []
        while turns and turns[-1].speaker == "human":
            now.insert(0, turns.pop().text)
        return cls(
            now="\n".join(now).strip(),
            before=tuple(turn.text for turn in turns if turn.speaker == "human"),
            bot_texts=tuple(turn.text for turn in turns if turn.speaker == "bot"),
            texts=context.texts,
        )

    @property
    def after_question(self) -> bool:
        return bool(self.bot_texts) and "?" in self.bot_texts[-1]

    def used(self, template: _Template) -> bool:
        """Return True if either side has used it.

        In self-play both speak from one script.
        """
        return any(template.shape.fullmatch(text) for text in self.texts)


def _candidates(script: ElizaScript, dialogue: _Dialogue, rng: random.Random) -> Iterable[list[str | None]]:
    """Yield lists of possible replies, the best list first."""

    def unused(templates: Iterable[_Template], groups: Sequence[str | None] = ()) -> list[str | None]:
        return [t.filled(groups) for t in templates if not dialogue.used(t)]

    if not dialogue.now:
        yield unused(script.special["empty" if dialogue.texts else "opener"])
    else:
        special = _special_kind(script, dialogue.now)
        if special:
            yield unused(script.special[special])
            if special.startswith("emoji"):
                yield unused(script.special["emoji"])
        matches = script.matches(dialogue.now, dialogue.after_question)
        top = matches[0].rule.rank if matches else 0
        if (
            _normal(dialogue.now) in {_normal(text) for text in dialogue.before}
            and top < 9
            and top != _WEAK
            and " " in dialogue.now
        ):
            yield unused(script.special["repeated"])
        if len(dialogue.now.split()) > _LONG and top < 6:
            yield unused(script.special["long"])
        strong = [match for match in matches if match.rule.rank > _WEAK]
        for match in strong:
            yield unused(match.rule.say, match.groups)
        weak = [match for match in matches if match.rule.rank <= _WEAK]
        if weak and rng.random() < 0.5:
            yield unused(weak[0].rule.say, weak[0].groups)
        # A short "ok" invites a change of subject; a whole sentence invites a follow-up question.
        if rng.random() < (0.8 if len(dialogue.now.split()) < 3 else 0.25):
            yield from _memories(script, dialogue, unused)
        for match in weak:
            yield unused(match.rule.say, match.groups)
    yield unused(script.special["none"])
    yield from _memories(script, dialogue, unused)


def _memories(script: ElizaScript, dialogue: _Dialogue, unused: Any) -> Iterable[list[str | None]]:
    """Yield replies that refer back to earlier turns, latest first.

    The turn just answered is skipped.
    """
    for text in reversed(dialogue.before[:-1]):
        for match in script.matches(text, after_question=False):
            if match.rule.later:
                yield unused(match.rule.later, match.groups)


def _normal(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().lower()
