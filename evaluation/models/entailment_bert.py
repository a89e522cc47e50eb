"""DialogEntailment's BERT: both texts read together, one vector, three classes (fact sheet, section 3).

Dziri et al. (2019), NAACL; Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", NAACL. The encoder may be any of Hugging Face's; which marks stand between the texts is its tokenizer's.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from evaluation.models.entailment import Classifier
from evaluation.training.backbone import Backbone

INIT_STD = 0.02


class EntailmentBert(Classifier):
    """[CLS] premise [SEP] hypothesis [SEP], at most 128 pieces, the longer text cut first → pooled output → 3 logits
    (3).

    Args:
        encoder: with pooling "cls": the first token's last state through the model's pooler, where it has one.
        dropout: of the pooled output.
    """

    labels = ("contradiction", "entailment", "neutral")

    def __init__(self, encoder: Backbone, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(encoder.width, len(self.labels))
        nn.init.normal_(self.out.weight, std=INIT_STD)
        nn.init.zeros_(self.out.bias)

    def own_logits(
        self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor
    ) -> Tensor:
        assert not isinstance(premise, Tensor)
        assert not isinstance(hypothesis, Tensor)
        pooled = self.encoder(premise, hypothesis).pooled  # (B, H)
        return self.out(self.dropout(pooled))
