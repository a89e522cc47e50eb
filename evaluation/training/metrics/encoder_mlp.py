"""Training of an encoder with an MLP on human ratings: BERT-MLP and RoBERTa-MLP of RADE's tables.

Shi et al. (2023), "RADE: Reference-Assisted Dialogue Evaluation for Open-Domain Dialogue", ACL, section 5.2: encode the
dialogue, then an MLP predicts the score of the reply. The paper gives neither the form of the input nor that of the
MLP, and its Table 9 lists these rows under reference-based methods. Chosen here: two segments, context and reply, with
an option to put the reference before the reply; RADE's own head; squared error. A context that is too long loses its
oldest tokens.

The released pairs have no licence, so weights trained on them must not be distributed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.models.rade import ScoreHead
from evaluation.training.backbone import backbone_load
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import BackboneConfig, MetricTrainingConfig, register_learned
from evaluation.training.contract import ExampleLoss, Prepared
from evaluation.training.metrics.rade import RatedExamples, RatedOptions, RatedTraining
from evaluation.training.rade_data import RatedPair


class EncoderMlpOptions(RatedOptions):
    """Options of an encoder with an MLP.

    Attributes:
        reads_reference: also encode the reference; the metric then needs one.
    """

    reads_reference: bool = False


class EncoderMlpNetwork(nn.Module):
    """Encoder of the dialogue with a head for one score."""

    def __init__(self, config: BackboneConfig, options: EncoderMlpOptions) -> None:
        super().__init__()
        self.options = options
        self.backbone = backbone_load(config)
        self.backbone.tokenizer.truncation_side = "left"  # the last utterances matter most
        self.head = ScoreHead(self.backbone.width, options.dropout, 1)

    def scored(self, batch: Sequence[RatedPair]) -> Tensor:
        """Return the predicted scores ŝ_a, (B, 1)."""
        between = f" {self.backbone.tokenizer.sep_token or ''} "
        contexts = [between.join(pair.context) for pair in batch]
        replies = [
            between.join([pair.reference, pair.response]) if self.options.reads_reference else pair.response
            for pair in batch
        ]
        return self.head(self.backbone(contexts, replies).pooled)

    def loss(self, batch: Sequence[RatedPair]) -> ExampleLoss:
        """Return the mean of (ŝ_a − s_a)²."""
        scores = self.scored(batch)[:, 0]
        people = torch.tensor([pair.score for pair in batch], device=scores.device)
        return ExampleLoss(F.mse_loss(scores, people), len(batch))


@register_learned
class EncoderMlpTraining(RatedTraining):
    """An encoder with an MLP."""

    name = "encoder_mlp"
    options_type = EncoderMlpOptions

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        network = EncoderMlpNetwork(config.backbone, config.metric_options)
        assert isinstance(prepared.train, RatedExamples)
        mean = sum(pair.score for pair in prepared.train.pairs) / prepared.train.n
        # From 0, a small learning rate would spend the training on reaching the ratings' mean.
        bias = network.head.layers[-1].bias
        assert isinstance(bias, nn.Parameter)
        nn.init.constant_(bias, mean)
        return network

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        return EncoderMlpNetwork(checkpoint.config.backbone, checkpoint.config.metric_options)
