"""Options of a checkpoint's model: reading a conversation and decoding its reply."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from chatbots.encoders.named import EncoderFiles
from chatbots.outside import NumberAsWritten, Values


class CheckpointOptions(Values):
    """Options of a checkpoint bot in `bots.yaml`."""

    folder: str = Field(
        min_length=1,
        description="of the checkpoint: manifest.json, vocabulary.txt, model.safetensors.",
    )
    decoding: Literal["beam", "sample", "greedy"] = Field(
        "beam",
        description='"beam", "sample" or "greedy"; a beam\'s reply comes in one piece, the others word by word.',
    )
    beam: int = Field(5, ge=1, description="hypotheses that beam search keeps.")
    reply_choice: Literal["best", "priority", "length"] = Field(
        "priority",
        description='among a beam\'s results: "best"; or drawn as in the paper, by rank ("priority") or by length '
        '("length").',
    )
    length_penalty: NumberAsWritten = Field(
        0.0,
        ge=0,
        description="of beam search; 0: none, larger favours longer replies (Wu et al. 2016).",
    )
    temperature: NumberAsWritten = Field(
        1.0, gt=0, le=10, description="of sampling; below 1 safer, above 1 wilder."
    )
    top_k: int = Field(0, ge=0, description="of sampling: only the k likeliest words; 0: all.")
    top_p: NumberAsWritten = Field(
        1.0,
        gt=0,
        le=1,
        description="of sampling: only the fewest words holding this share of the probability; 1: all.",
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="no sequence of so many words twice in a reply; 0: off."
    )
    forbid_unknown: bool = Field(True, description="never say the unknown word.")
    window: int = Field(
        5, ge=0, description="most turns of the conversation given to the model; 0: all."
    )
    max_tokens: int = Field(30, ge=1, description="a reply's longest, in words and signs.")
    min_tokens: int = Field(1, ge=1, description="its shortest; 1 keeps replies from being empty.")
    projection: Literal["float32", "int8"] = Field(
        "float32",
        description='"int8" computes the projection onto the vocabulary in whole numbers: faster on a processor, and '
        "other "
        "replies now and then; not for Transformers, and not on a GPU.",
    )
    z_conv: Literal["drawn", "inferred", "redrawn"] | None = Field(
        None,
        description='VHCR\'s variable of the conversation: "drawn" once, "inferred" from the context, or "redrawn" '
        "at every reply as the released code did; none: as the checkpoint's config says.",
    )
    compat_beam_states: bool = Field(
        False,
        description="as the released code, beam search reads the state of an older message: the latest is ignored "
        "at 3 turns and from 5 on (with a beam of 5).",
    )
    compat_full_stop: bool = Field(
        False, description="as there, a full stop is put after utterances without an end sign."
    )
    compat_empty_first: bool = Field(
        False,
        description="as in its self-play, an empty utterance stands before the conversation.",
    )
    encoder_files: EncoderFiles | None = Field(
        None,
        description="where DeepMoji and InferSent are, for a model that was trained as input_only with them: "
        "{deepmoji: {weights, vocabulary}, infersent: {weights, vectors}}.",
    )
    capacity: int = Field(64, ge=1, description="most replies under way at once.")

    @model_validator(mode="after")
    def _fits_together(self) -> CheckpointOptions:
        if self.min_tokens > self.max_tokens:
            right = f"1 to max_tokens ({self.max_tokens})"
            raise ValueError(f"min_tokens is {self.min_tokens}; it must be {right}")
        return self
