"""USR: a reply's likelihood under a masked language model, its fit to the context, and their combination.

Mehri and Eskenazi (2020), "USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation", ACL.
RoBERTa, fine-tuned on the dialogues to be rated, predicts each word of the reply (MLM); fine-tuned again to recognise
true replies, it rates the fit to the context (dialogue retrieval, DR). MLM stands for the qualities understandable and
natural, DR for maintains context and interesting; a regression combines them.

Departures:

- The figures in `levels`, which standardise both parts, are those of the released code for Topical-Chat.
- The weights of the authors' regression exist only as a pickle, which Confab does not load. By default the four
  qualities weigh the same; set `weights`, or fit them to ratings with `combine_metrics`.
- Rated replies have no facts, so DR (x = f) and the quality uses knowledge are left out.
- Only words of the reply are masked, as in the paper; the released code also masks those of the context. The
  combination uses the mean per token, as in the released code; the paper's sum is in a column of its own.
- At most five utterances of context are read, their last 200 words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.devices import rows_that_fit, transformer_row_bytes
from chatbots.identity import Identity
from chatbots.validation import InputModel, Number
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.base import ConfiguredMetric
from evaluation.metrics.local_models import LocalClassifier, LocalModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache

MOST_READ = 256
"""Maximum number of tokens of context and reply; a reply takes at most half of them."""
MOST_WORDS = 200


class UsrLevels(InputModel):
    """Means and standard deviations that standardise the two parts."""

    mlm_mean: Number = -1.012293440649907
    mlm_spread: Number = Field(default=0.39053753419230813, gt=0)
    dr_mean: Number = 0.8604811806918587
    dr_spread: Number = Field(default=0.30259338627812254, gt=0)


class UsrWeights(InputModel):
    """Weights of the regression by quality."""

    understandable: Number = 0.25
    natural: Number = 0.25
    maintains_context: Number = 0.25
    interesting: Number = 0.25


class UsrOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    mlm: str = Field(
        default="adamlin/usr-topicalchat-roberta_ft",
        min_length=1,
        description="masked language model: a folder or a hub id",
    )
    dr: str = Field(
        default="adamlin/usr-topicalchat-ctx",
        min_length=1,
        description="classifier of (context, reply): a folder or a hub id",
    )
    label: str = Field(default="LABEL_1", min_length=1, description="label of a true reply")
    has_markers: bool = Field(
        default=True, description="wrap utterances in _go and _eos, in lower case, as the authors' models"
    )
    levels: UsrLevels = UsrLevels()
    weights: UsrWeights = UsrWeights()
    device: str = Field(default="", description="device to compute on; by default that of the run")


class MaskedModel(LocalModel):
    """Masked language model of transformers."""

    @property
    def identity(self) -> Identity:
        return Identity("masked_model", "1", self.known_by)

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        kinds = [str(kind) for kind in self.config().get("architectures") or ()]
        if reason is None and not any(kind.endswith("ForMaskedLM") for kind in kinds):
            reason = f"{self.model} is {', '.join(kinds) or 'unknown'}; a masked language model (RoBERTa) is required"
        return reason

    def likelihoods(self, pairs: Sequence[tuple[str, str]], after: str = "") -> list[tuple[float, int]]:
        """Return the summed log-likelihood of each reply's tokens, and their number.

        Each token is predicted from all others of context and reply. NaN for a reply without tokens.

        Args:
            pairs: (text before, reply).
            after: text after every reply.
        """
        import torch

        sums, counts = np.zeros(len(pairs)), np.zeros(len(pairs), dtype=int)
        with self._lock:
            loaded = self.load("AutoModelForMaskedLM")
            tokenizer, limit = loaded.tokenizer, min(MOST_READ, most_tokens(loaded))
            masked: list[tuple[int, list[int], int]] = []  # reply, tokens, masked position

            def tokens_of(text: str) -> list[int]:
                return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

            end = [*tokens_of(after), tokenizer.sep_token_id]
            for k, (before, reply) in enumerate(pairs):
                words = tokens_of(f" {reply}" if before else reply)[: limit // 2]
                context = tokens_of(before)
                room = limit - len(words) - len(end) - 1
                begin = [tokenizer.cls_token_id, *context[max(0, len(context) - room) :]]
                counts[k] = len(words)
                masked += [(k, [*begin, *words, *end], len(begin) + i) for i in range(len(words))]
            n_rows = rows_that_fit(self.device, transformer_row_bytes(loaded.config, limit))
            masked.sort(key=lambda row: len(row[1]))
            for start in range(0, len(masked), n_rows):
                part = masked[start : start + n_rows]
                places = torch.tensor([place for _, _, place in part])
                lengths = torch.tensor([len(tokens) for _, tokens, _ in part])
                ids = torch.full((len(part), int(lengths.max())), tokenizer.pad_token_id or 0)
                for row, (_, tokens, _) in enumerate(part):
                    ids[row, : len(tokens)] = torch.tensor(tokens)
                rows = torch.arange(len(part))
                targets = ids[rows, places].clone()
                ids[rows, places] = tokenizer.mask_token_id
                mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
                with torch.inference_mode():
                    logits = (
                        loaded.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device))
                        .logits[rows, places]
                        .float()
                    )  # (B, V)
                    chosen = torch.log_softmax(logits, dim=-1)[rows, targets].double().cpu().numpy()
                np.add.at(sums, [k for k, _, _ in part], chosen)
        return [(float(total) if n else float("nan"), int(n)) for total, n in zip(sums, counts, strict=True)]


def combined(mlm: np.ndarray, dr: np.ndarray, levels: UsrLevels, weights: UsrWeights) -> np.ndarray:
    """Return the regression's value for standardised parts, (N,)."""
    z_mlm = (mlm - levels.mlm_mean) / levels.mlm_spread
    z_dr = (dr - levels.dr_mean) / levels.dr_spread
    # USR = Σ_q w_q z_q over the qualities q, each measured by its best part (Mehri and Eskenazi 2020, sections 4.3, 5).
    return (weights.understandable + weights.natural) * z_mlm + (weights.maintains_context + weights.interesting) * z_dr


@register_metric
class UsrScores(ReplyMetric, ConfiguredMetric):
    """USR's parts MLM and DR, and their combination; on request."""

    has_network = True
    kind = "usr"
    usual_title = "USR"
    options_type = UsrOptions
    options: UsrOptions | None
    default = False
    needs = ("a masked language model (RoBERTa)", "a classifier of context and reply")
    languages = ("en",)
    licence = "that of the authors' models, not stated"
    needs_context = True
    window = 5
    seen_sets = ("usr",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self._chosen = self.options or UsrOptions()
        if (chosen.mlm, chosen.dr) != (UsrOptions().mlm, UsrOptions().dr):
            self.licence = "that of the chosen models"
        device = chosen.device or "cpu"
        self._mlm = MaskedModel(chosen.mlm, device)
        self._dr = LocalClassifier(chosen.dr, chosen.label, device)
        opening = " Undefined for a turn that opens the conversation."
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="standard deviations",
                description="Combination of a reply's likelihood and its fit to the context, both standardised."
                + opening,
                range=(None, None),
                direction="higher",
            ),
            *per_turn(
                f"{self.name}_mlm_bot",
                f"{self.title}, MLM",
                unit="nats",
                range=(None, 0),
                direction="higher",
                description="Mean log-likelihood of the reply's tokens, each predicted from all others." + opening,
            ),
            *per_turn(
                f"{self.name}_mlm_sum_bot",
                f"{self.title}, MLM summed",
                unit="nats",
                range=(None, 0),
                direction="higher",
                description="Sum of the log-likelihoods of the reply's tokens, as in the paper." + opening,
            ),
            *per_turn(
                f"{self.name}_dr_bot",
                f"{self.title}, DR",
                unit="probability",
                range=(0, 1),
                direction="higher",
                description="Probability that the reply is the true one to this context." + opening,
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        chosen = self._chosen.model_dump(include={"has_markers", "levels", "weights"})
        return {"mlm": self._mlm.identity.as_dict(), "dr": self._dr.identity.as_dict(), **chosen}

    def unavailable_reason(self) -> str | None:
        reasons = (self._mlm.unavailable_reason(), self._dr.unavailable_reason())
        return "; ".join(reason for reason in reasons if reason) or None

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        device = self._chosen.device or shared.device
        go, end = ("_go", " _eos") if self._chosen.has_markers else ("", "")
        texts = [self._texts(reply) for reply in replies]
        pairs = [(f"{context} {go}".strip(), response) for context, response in texts]
        total, n = np.array(self._mlm.on(device).likelihoods(pairs, end), dtype=float).T
        mean = np.divide(total, n, out=np.full(len(replies), np.nan), where=n > 0)
        pairs = [(context, f"{go} {response}{end}".strip()) for context, response in texts]
        dr = self._dr.on(device).probabilities(pairs)  # DR = P(y = 1 | x, r), section 4.2
        return {
            f"{self.name}_bot": combined(mean, dr, self._chosen.levels, self._chosen.weights),
            f"{self.name}_mlm_bot": mean,  # Σ_i l_i / |r|
            f"{self.name}_mlm_sum_bot": total,  # Σ_i l_i, section 4.1; the paper prints it with a minus
            f"{self.name}_dr_bot": dr,
        }

    def _texts(self, reply: ReplyInContext) -> tuple[str, str]:
        """Return the end of the context, and the reply."""
        if not self._chosen.has_markers:
            return " ".join(" ".join(reply.context).split()[-MOST_WORDS:]), reply.response
        words = " _eos ".join([*reply.context, ""]).lower().split()[-MOST_WORDS:]
        return " ".join(words), " ".join(reply.response.lower().split())
