"""Scoring of a gold set by a judge, on the ratings' scale."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chatbots import Conversation
from chatbots.identity import Identity
from chatbots.registry import bots
from evaluation.agreement.judges.gold import GoldSet
from evaluation.agreement.llm_judge import JudgedPairs, pairs_judged
from evaluation.data.items import ReplyInContext, ReplyItem
from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.verdicts import NO_NUMBER

BATCH, MOST_REPEATED, MOST_PAIRS = 16, 100, 50
"""Numbers of concurrent requests, of instances scored again, and of pairs judged in both orders."""
CAPPED = "the judge reached its limit of requests"
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "deepseek": ("deepseek", "deepseek-ai"),
    "llama": ("(?:meta-?|code|tiny|open)?llama", "vicuna", "alpaca", "guanaco", "maverick", "scout"),
    "gpt_neo": ("gpt-?neox?", "gpt-?j", "pythia", "eleutherai"),
    "gpt2": ("(?:distil)?gpt-?2", "dialo-?gpt"),
    "gpt": ("(?:chat|auto)?gpt", r"o[1345](?!\d)", "davinci", "openai"),
    "claude": ("claude", "anthropic"),
    "gemma": ("(?:code|med|pali|shield)?gemma",),
    "gemini": ("gemini", "palm", "bard", "learnlm"),
    "mistral": (
        "(?:open-)?mi[sx]tral",
        "ministral",
        "magistral",
        "devstral",
        "codestral",
        "pixtral",
        "zephyr",
        "mistralai",
    ),
    "qwen": ("qwen", "qwq", "qvq", "codeqwen", "tongyi"),
    "smollm": ("smol[lv]?lm", "smolvlm", "huggingfacetb"),
    "phi": ("phi",),
    "command": ("command", "c4ai", "aya", "cohere", "cohereforai", "coherelabs"),
    "grok": ("grok", "xai", "x-ai"),
    "glm": ("(?:chat)?glm", "zai-org", "thudm"),
    "kimi": ("kimi", "moonshot", "moonshotai"),
    "yi": ("yi", "01-ai"),
    "olmo": ("olmo", "olmoe", "tulu", "allenai"),
    "granite": ("granite", "ibm-granite"),
    "falcon": ("falcon", "tiiuae"),
    "nova": ("nova", "amazon"),
    "jamba": ("jamba", "jurassic", "j2", "ai21", "ai21labs"),
    "minimax": ("minimax", "abab", "minimaxai"),
    "ernie": ("ernie", "baidu"),
    "hunyuan": ("hunyuan", "tencent"),
    "internlm": ("internlm", "intern"),
    "nemotron": ("nemotron", "nemo", "nvidia"),
    "mpt": ("mpt", "dbrx", "dolly", "databricks"),
    "stablelm": ("stablelm", "stabilityai"),
    "bloom": ("bloomz?", "bigscience"),
    "t5": ("(?:flan-)?u?l?t5", "flan"),
    "blenderbot": ("blenderbot", "opt"),
}
"""Words that identify the models of a family and their owners; the first match counts."""
_SIZE = re.compile(r"(?<![a-z0-9])(\d+(?:\.\d+)?)\s*([mb])(?![a-z0-9])")


@dataclass(frozen=True)
class JudgeScores:
    """Scores of one judge.

    Attributes:
        identity: digest of model, prompt, question and scale.
        prompt: digest of the prompt only.
        model: its name.
        scores: (R, N) on the scale of the ratings, with all instances in the first row and NaN for missing scores.
        is_fixed: True for a local model, whose scores do not vary.
        reasons: reasons for missing scores, with counts.
        n_requests, seconds, cost: totals.
        pairs: replies to one context, judged in both orders.
        written: (N,) reasons that the judge wrote in the first pass; empty if it writes none.
    """

    judge: str
    title: str
    identity: str
    prompt: str
    model: str
    scores: np.ndarray
    is_fixed: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)
    n_requests: int = 0
    seconds: float = 0.0
    cost: float | None = None
    pairs: JudgedPairs | None = None
    written: Sequence[str] = ()

    @property
    def first(self) -> np.ndarray:
        """(N,) scores of the first pass."""
        return np.asarray(self.scores[0])


def judge_identity(judge: JudgeMetric, unit: str) -> tuple[str, str]:
    """Return digests of all that affects a judge's scores, and of its prompt."""
    assert judge.options is not None
    words = judge.options.model_dump(include={"chat_prompt" if unit == "chat" else "prompt", "rubric"})
    prompt = Identity("judge_prompt", "1", words).key
    return Identity("judge_scores", "1", {"metric": judge.identity.key, "words": prompt, "unit": unit}).key, prompt


def model_family(name: str) -> str:
    """Return a model's family by `FAMILIES`; empty if unknown.

    `meta-llama/Llama-3.1-8B` belongs to `llama`.

    The model's name takes precedence over its owner's: `nvidia/Llama-3.1-Nemotron` is a Llama.
    """
    owner, _, model = name.lower().rpartition("/")
    for text in (model, owner):
        for family, words in FAMILIES.items():
            if any(re.search(rf"(?<![a-z0-9]){word}(?![a-z])", text) for word in words):
                return family
    return ""


def model_parameters(name: str) -> float | None:
    """Return the parameter count in a model's name, or None.

    Such as `8b` or `135m`.
    """
    sizes = _SIZE.findall(name.lower().replace("_", "-"))
    return float(sizes[-1][0]) * {"m": 1e6, "b": 1e9}[sizes[-1][1]] if sizes else None


def bot_model(bot_id: str) -> str:
    """Return a registered bot's model name; empty if unknown."""
    return str(bots.get(bot_id).identity.params.get("model") or "") if bot_id in bots else ""


def score_gold(
    judge: JudgeMetric,
    gold: GoldSet,
    *,
    repeats: int = 2,
    n_pairs: int = MOST_PAIRS,
    progress: Callable[[int], None] | None = None,
) -> JudgeScores:
    """Score a gold set with a judge.

    Raises ValueError with the reason if the judge cannot be used here.

    Args:
        judge: its question with the name of the gold set's question is used, otherwise its first one.
        repeats: number of times the first instances are scored; a local model scores once, as its scores do not vary.
        progress: called with the number of scored instances.
    """
    if judge.options is None or (reason := judge.unavailable_reason()) is not None:
        raise ValueError(f"{judge.name} cannot judge: {'no model is named' if judge.options is None else reason}")
    judge = judge.fresh()
    options = judge.options
    assert options is not None
    is_fixed, is_chat = bool(options.model), gold.unit == "chat"
    key = gold.dimension.key if gold.dimension.key in options.rubric else next(iter(options.rubric))
    began = time.monotonic()
    prompts = [
        judge.chat_prompt(text, key) if isinstance(text, Conversation) else judge.reply_prompt(judge.seen(text), key)
        for text in gold.texts
    ]
    numbers = np.arange(options.low, options.high + 1)
    rows = np.full((1 if is_fixed else max(1, repeats), len(gold)), np.nan)
    reasons: Counter[str] = Counter()
    written = [""] * len(gold)
    for judge.repeat, row in enumerate(rows):
        n = len(prompts) if judge.repeat == 0 else min(len(prompts), MOST_REPEATED)
        for begin in range(0, n, BATCH):
            batch = prompts[begin : min(begin + BATCH, n)]
            if judge.n_requests + len(batch) > options.max_requests:
                reasons[CAPPED] += n - begin if judge.repeat == 0 else 0
                break
            points = judge.chances(batch, [str(number) for number in numbers], read_all=is_chat) @ numbers
            share = (points - options.low) / (options.high - options.low)
            row[begin : begin + len(batch)] = gold.dimension.low + share * gold.width
            if judge.repeat == 0:
                written[begin : begin + len(judge.reasons)] = judge.reasons
                problems = judge.problems or [NO_NUMBER] * len(batch)
                reasons.update(judge.with_example(problems[k]) for k in np.flatnonzero(np.isnan(points)))
            if progress is not None:
                progress(begin + len(batch) if judge.repeat == 0 else len(gold))
    judge.repeat = 0
    pairs = _pairs(judge, gold, min(n_pairs, (options.max_requests - judge.n_requests) // 2))
    used = options.bot or options.model
    return JudgeScores(
        judge.name,
        judge.title,
        *judge_identity(judge, gold.unit),
        model=bot_model(used) or used,
        scores=rows,
        is_fixed=is_fixed,
        reasons={reason: n for reason, n in reasons.items() if n},
        n_requests=judge.n_requests,
        seconds=time.monotonic() - began,
        cost=None if is_fixed else judge.cost,
        pairs=pairs,
        written=written if any(written) else (),
    )


def _pairs(judge: JudgeMetric, gold: GoldSet, limit: int) -> JudgedPairs | None:
    """Judge pairs of replies to one context in both orders.

    One pair per context; None if there are none.
    """
    first: dict[int, tuple[ReplyInContext, str]] = {}
    items: dict[int, ReplyItem] = {}
    for k, text in enumerate(gold.texts):
        code = int(gold.context_codes[k])
        if isinstance(text, Conversation):
            continue
        first_text, model = first.setdefault(code, (text, gold.models[k]))
        if code not in items and text.response != first_text.response:
            items[code] = ReplyItem(
                id=gold.digests[k],
                context=text.context,
                response=first_text.response,
                model=model,
                second_response=text.response,
                second_model=gold.models[k],
            )
    return pairs_judged(judge, list(items.values())[:limit]) if items and limit > 0 else None
