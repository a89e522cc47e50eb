"""InferSent: a bidirectional LSTM over word vectors and the maximum over time.

Conneau et al. (2017), "Supervised Learning of Universal Sentence Representations from Natural Language
Inference Data", EMNLP; parameter names as in Facebook's release, whose weight files load as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class InferSent(nn.Module):
    """The network; 38,502,400 parameters at its published size, word vectors not counted.

    Args:
        D: size of the word vectors.
        H: hidden units per direction.
        compat_padding: the padding of shorter sentences takes part in the maximum, as in version 1's code: a
            sentence's vector then depends on the longest of its batch, for a negative maximum becomes 0.
    """

    def __init__(self, D: int = 300, H: int = 2048, *, compat_padding: bool = False) -> None:
        super().__init__()
        self.compat_padding = compat_padding
        self.enc_lstm = nn.LSTM(D, H, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode sentences.

        Args:
            words: (B, L, D) word vectors, then anything.
            lengths: (B,) words of each sentence, 1 to L, the largest of them L; on any device.

        Returns:
            (B, 2H)
        """
        packed = nn.utils.rnn.pack_padded_sequence(
            words, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(self.enc_lstm(packed)[0], batch_first=True)
        if not self.compat_padding:
            # As if each sentence had been encoded alone, where there is no padding.
            places = torch.arange(states.shape[1], device=states.device)
            padding = places >= lengths.to(states.device)[:, None]
            states = states.masked_fill(padding[..., None], -torch.inf)  # (B, L, 2H)
        return states.amax(dim=1)


def infersent_from_state(state: Mapping[str, Tensor], *, compat_padding: bool = False) -> InferSent:
    """Build the network of a state dict; its sizes are read from the tensors.

    Raises:
        KeyError, RuntimeError: a tensor is missing, is too many or has another shape.
    """
    D = state["enc_lstm.weight_ih_l0"].shape[1]
    H = state["enc_lstm.weight_hh_l0"].shape[1]
    with torch.device("meta"):
        model = InferSent(D, H, compat_padding=compat_padding)
    model.load_state_dict(dict(state), assign=True)
    return model
