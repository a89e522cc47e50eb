"""Judge that checks the criteria of items, with one request for each item.

The judge names the numbers of the statements that are true of the reply, as `{"met": [1, 3]}`; structured output is
requested if its endpoint supports it. Refusals and answers without a valid list leave the item unanswered and are
counted. Points are not shown, as for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatbots import Conversation
from evaluation.agreement.judges.scoring import BATCH
from evaluation.data.items import ReplyItem
from evaluation.metrics.judge import JudgeMetric, fence, lines
from evaluation.metrics.verdicts import REFUSED, is_refusal, read_last_object

NO_LIST = "the judge's answer contains no list of the numbers of statements"
NEEDS_ENDPOINT = "criteria are checked by a judge at an endpoint; name a judge with a `bot` instead of a local `model`"
CHECK_PROMPT = (
    "Two speakers talk with each other. Read the conversation, then check the last reply against the statements.\n\n"
    "The conversation so far:\n{context}\n\nThe reply to judge:\n{reply}\n\nThe statements:\n{criteria}"
)
CHECK_FORM = (
    "Which of the statements are true of the reply? End with a last line of this form, with the numbers of all true "
    'statements, or an empty list if none is true:\n{{"met": [1, 3]}}'
)


@dataclass(frozen=True, slots=True)
class CheckedItems:
    """Answers of a judge.

    Attributes:
        ticks: 1 or 0 for each criterion, by the item's key; without unanswered items.
        problems: number of unanswered items by reason.
    """

    ticks: Mapping[str, list[int]]
    problems: Mapping[str, int]


def check_items(
    judge: JudgeMetric, items: Sequence[ReplyItem], progress: Callable[[int], None] = lambda n: None
) -> CheckedItems:
    """Ask a judge which criteria each item's first reply meets.

    Args:
        progress: called with the number of items so far.

    Raises:
        ValueError: the judge has no endpoint.
    """
    from chatbots.endpoints.metering import PaidBot
    from chatbots.registry import bot_load
    from chatbots.serving import reply

    if judge.options is None or not judge.options.bot:
        raise ValueError(NEEDS_ENDPOINT)
    bot: Any = bot_load(judge.options.bot, "cpu")
    ticks: dict[str, list[int]] = {}
    problems: Counter[str] = Counter()
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        prompts = [check_prompt(item, judge.options.window) for item in batch]
        contexts = [Conversation.from_texts([prompt], id=f"criteria-{k}") for k, prompt in enumerate(prompts, start)]
        for context, item in zip(contexts, batch, strict=True):
            bot.likely_want(context, _response_format(len(item.criteria)))
        for context, item, answer in zip(contexts, batch, reply(bot, contexts), strict=True):
            bot.likely_take(context)
            if isinstance(bot, PaidBot):
                bot.cost_take(context)  # the meter has counted it
            met, problem = read_met(answer.text or "", len(item.criteria))
            if answer.error:
                met, problem = None, f"the judge did not respond: {answer.error}"
            if met is None:
                problems[problem] += 1
            else:
                ticks[item.key] = met
        progress(start + len(batch))
    return CheckedItems(ticks, problems)


def check_prompt(item: ReplyItem, window: int) -> str:
    """Return the request about one item, with the last `window` utterances of its context."""
    # One line for each statement: a line break in a text could begin like the next number.
    statements = [" ".join(criterion.text.split()) for criterion in item.criteria]
    criteria = "\n".join(f"{n}. {statement}" for n, statement in enumerate(statements, start=1))
    texts = {"context": lines(item.context[-window:]), "reply": item.response, "criteria": criteria}
    return fence(CHECK_PROMPT, CHECK_FORM, texts)


def read_met(text: str, n_criteria: int) -> tuple[list[int] | None, str]:
    """Return 1 or 0 for each criterion by the last object in an answer, or None and the reason."""
    numbers = read_last_object(text).get("met")
    if isinstance(numbers, list) and all(
        type(number) is int and 1 <= number <= n_criteria for number in numbers
    ):  # True is no number
        return [int(number in numbers) for number in range(1, n_criteria + 1)], ""
    return None, REFUSED if is_refusal(text) else NO_LIST


def _response_format(n_criteria: int) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "integer", "enum": list(range(1, n_criteria + 1))}}
    schema = {"type": "object", "properties": {"met": numbers}, "required": ["met"], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "met", "strict": True, "schema": schema}}
