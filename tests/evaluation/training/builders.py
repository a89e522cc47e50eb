"""A learned metric of forty numbers, and tiny trainings of it."""

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from chatbots.validation import InputModel, Number
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig, config_check
from evaluation.training.contract import ExampleLoss, Examples, LearnedMetric, Prepared, Splits

N_BINS = 20
Pairs = list[tuple[list[int], list[int], float]]


class Options(InputModel):
    margin: Number = Field(0.1, ge=0)


def bins(text: str) -> list[int]:
    return [zlib.crc32(word.encode()) % N_BINS for word in text.lower().split()]


class Network(nn.Module):
    """Score a pair by the inner product of its bags of words, each word with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N_BINS) / 10)
        self.bias = nn.Parameter(torch.zeros(N_BINS))

    def forward(self, first: list[int], second: list[int]) -> Tensor:
        both = torch.bincount(torch.tensor(first), minlength=N_BINS) * torch.bincount(
            torch.tensor(second), minlength=N_BINS
        )
        return (self.weight * both + self.bias * (both > 0)).sum()

    def loss(self, batch: Pairs) -> ExampleLoss:
        scores = torch.stack([self(first, second) for first, second, _ in batch])
        scores = nn.functional.dropout(scores, 0.1, self.training)
        right = torch.tensor([label for *_, label in batch])
        total = nn.functional.binary_cross_entropy_with_logits(scores, right)
        return ExampleLoss(total, len(batch), {"accuracy": ((scores > 0) == right).float().mean()})


class TurnPairs(Examples):
    """Each turn and the next one, or a random one; which of them changes sides is decided each epoch."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self.n = pairs, len(pairs)
        self.turned = torch.zeros(1)

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Pairs]:
        order = random.Random(f"{seed} {epoch}").sample(range(self.n), self.n)
        for at in range(start * batch_size, self.n, batch_size):
            yield [self.pairs[k] for k in order[at : at + batch_size]]

    def in_order(self, batch_size: int) -> Iterator[Pairs]:
        for at in range(0, self.n, batch_size):
            yield self.pairs[at : at + batch_size]

    def begin_epoch(self, network: nn.Module, epoch: int) -> None:
        self.turned = self.turned + next(network.parameters()).detach().sum()

    def remember(self) -> dict[str, Tensor]:
        return {"turned": self.turned}

    def recall(self, kept: dict[str, Tensor]) -> None:
        self.turned = kept["turned"]


class SharedWords(LearnedMetric):
    name = "shared_words"
    options_type = Options

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        def pairs(part: str) -> TurnPairs:
            draw = random.Random(part)
            results: Pairs = []
            for dialogue in getattr(splits, part):
                for first, second in zip(dialogue.turns, dialogue.turns[1:], strict=False):
                    other = draw.choice(draw.choice(splits.train).turns)
                    results += [(bins(first), bins(second), 1.0), (bins(first), bins(other), 0.0)]
            return TurnPairs(results)

        made = {part: pairs(part) for part in ("train", "validation", "test")}
        return Prepared(digest=splits.digest, files={"words.txt": b"hello\n"}, **made)

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        return Network()

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        assert checkpoint.file("words.txt") == b"hello\n"
        return Network()


def values(**changes: Any) -> dict[str, Any]:
    """Return a config of few batches; `changes` go over its keys."""
    usual: dict[str, Any] = {
        "name": "tiny",
        "metric": "shared_words",
        "data": {"corpora": [{"path": "small.jsonl"}]},
        "optimiser": {"batch_size": 32, "lr": 0.05, "epochs": 3, "precision": "float32"},
        "keeping": {"log_every": 4, "save_every": 5},
    }
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(usual.get(key), dict)
        usual[key] = {**usual[key], **value} if both else value
    return usual


def config(folder: Path, **changes: Any) -> MetricTrainingConfig:
    return config_check(values(**changes), folder)
