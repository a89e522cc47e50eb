"""EI regularisation: emotion and sentence-embedding distillation into the context RNN.

Ghandeharioun et al. (2019), section 3.2. Two small heads read c_t, the context after utterance t, and predict that
utterance's emotion distribution (from DeepMoji in the paper) and its sentence embedding (InferSent's, reduced by PCA).
Each can be used alone. Generation does not need them.

Input-only variant: the context RNN reads each utterance's emotion and embedding in addition to its encoding. The heads
are trained only as a diagnostic, on a detached context.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from chatbots.models.batch import DialogueBatch
from chatbots.models.layers import FeedForward
from chatbots.validation import InputModel, Number, Size


class EIConfig(InputModel):
    """Configuration of the EI heads (Table 9 of the paper).

    Attributes:
        emotion, sentence: use this head.
        K: emotions of the emotion encoder (DeepMoji: 64).
        D: size of the sentence embedding that is distilled.
        e, s: hidden units of the emotion and the sentence head.
        w_emo, w_inf: weights of their losses.
        input_only: read emotion and embedding as input instead of distilling them.
        compat_relu_emotion: apply a ReLU to the emotion logits too, as in the released code.
        compat_input_only_attached: propagate gradients of input-only heads, as in the released VHCR.
    """

    emotion: bool = True
    sentence: bool = True
    K: Size = 64
    D: Size = 4096
    e: Size = 128
    s: Size = 4000
    w_emo: Number = Field(25.0, ge=0)
    w_inf: Number = Field(25_000.0, ge=0)
    input_only: bool = False
    compat_relu_emotion: bool = False
    compat_input_only_attached: bool = False

    @model_validator(mode="after")
    def _has_a_head(self) -> EIConfig:
        if not (self.emotion or self.sentence):
            raise ValueError("emotion and sentence are both false; enable at least one head")
        return self

    @property
    def input_width(self) -> int:
        """Number of additional inputs per utterance."""
        return (self.emotion * self.K + self.sentence * self.D) if self.input_only else 0


def input_width(config: EIConfig | None) -> int:
    """Return the number of additional inputs per utterance; 0 without EI."""
    return config.input_width if config else 0


def with_inputs(h: Tensor, batch: DialogueBatch, config: EIConfig | None) -> Tensor:
    """Return the inputs of the context RNN for each utterance.

    Args:
        h: (B, N, 2H_e)

    Returns:
        (B, N, 2H_e), or (B, N, 2H_e + K + D) for the input-only variant: [h_t; emotion; embedding].

    Raises:
        ValueError: the batch lacks emotions or embeddings.
    """
    if config is None or not config.input_only:
        return h
    extras = [h]
    if config.emotion:
        extras.append(_targets(batch, "emotion", config.K).to(h.dtype))
    if config.sentence:
        extras.append(_targets(batch, "sentence", config.D).to(h.dtype))
    return torch.cat(extras, dim=-1)


def _targets(batch: DialogueBatch, name: str, width: int) -> Tensor:
    """Return the batch's (B, N, width) emotions or embeddings.

    Raises:
        ValueError: the batch has none, or their width differs.
    """
    value: Tensor | None = getattr(batch, name)
    if value is None or value.shape[-1] != width:
        received = "none" if value is None else f"of width {value.shape[-1]}"
        raise ValueError(f"the model needs {name} targets of width {width}; the batch has {received}")
    return value


@dataclass(frozen=True, eq=False)
class EILosses:
    """Losses of the heads, means over input utterances, and their weighted sum.

    Each has shape ().
    """

    emotion: Tensor
    sentence: Tensor
    weighted: Tensor


class EIHeads(nn.Module):
    """The two heads over contexts of size C."""

    def __init__(self, config: EIConfig, C: int) -> None:
        super().__init__()
        self.config = config
        self.emotion: FeedForward | None = None
        self.sentence: FeedForward | None = None
        if config.emotion:
            self.emotion = FeedForward(
                C, config.K, n_layers=2, hidden=config.e, activation=nn.ReLU, last=config.compat_relu_emotion
            )
        if config.sentence:
            self.sentence = FeedForward(C, config.D, n_layers=2, hidden=config.s, activation=nn.ReLU, last=False)

    def forward(self, c: Tensor, batch: DialogueBatch) -> EILosses:
        """Compute the losses for the utterances just read.

        Args:
            c: (n, C), contexts of the n input utterances, in the order of `batch.targets.mask`.

        Raises:
            ValueError: a target is missing.
        """
        config = self.config
        if config.input_only and not config.compat_input_only_attached:
            c = c.detach()
        mask = batch.targets.mask  # (B, N-1)
        emotion = sentence = c.new_zeros((), dtype=torch.float32)
        if self.emotion is not None:
            p = _targets(batch, "emotion", config.K)[:, :-1][mask].float()  # (n, K)
            logits = self.emotion(c).float()  # (n, K)
            # −(1/n) Σ_t Σ_k p_k log softmax(logits)_k
            emotion = -(p * F.log_softmax(logits, dim=-1)).sum(-1).mean()
        if self.sentence is not None:
            targets = _targets(batch, "sentence", config.D)[:, :-1][mask].float()  # (n, D)
            sentence = F.mse_loss(self.sentence(c).float(), targets)
        return EILosses(emotion, sentence, config.w_emo * emotion + config.w_inf * sentence)


def ei_losses(heads: EIHeads | None, c: Tensor, batch: DialogueBatch) -> EILosses:
    """Return the heads' losses; zeros without heads."""
    if heads is not None:
        return heads(c, batch)
    zero = c.new_zeros((), dtype=torch.float32)
    return EILosses(zero, zero, zero)
