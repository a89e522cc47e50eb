"""Options of language models and checkpoints in `bots.yaml`: context, sampling, reasoning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from chatbots.encoders.ei_encoders import EncoderFiles
from chatbots.generation.output_filter import OutputFilter
from chatbots.validation import InputModel, Many, NumberAsWritten

SystemPrompt = Annotated[str, Field(description="what the model is told first.")]
Temperature = Annotated[
    NumberAsWritten, Field(ge=0, le=10, description="0: always the likeliest token. Below 1 safer, above 1 wilder.")
]
TopK = Annotated[int, Field(ge=0, description="only the k likeliest tokens; 0: all.")]
TopP = Annotated[
    NumberAsWritten,
    Field(gt=0, le=1, description="only the fewest tokens holding this share of the probability; 1: all."),
]

_Mark = Annotated[str, Field(min_length=1)]


class ReasoningOptions(InputModel):
    """Options of the reasoning tokens, the same for every kind of language model."""

    starts_thinking: bool = Field(
        False,
        description="its replies begin within a thought that has no opening mark (the chat template has written it); "
        "nothing is shown before the closing mark, such as `</think>`.",
    )
    thought_marks: dict[_Mark, _Mark] = Field(
        default_factory=dict,
        description='opening and closing marks of thoughts besides the known ones: `{"<plan>": "</plan>"}`. The '
        "text between them is never shown.",
    )

    def reply_filter(self) -> OutputFilter:
        """Make the filter of one reply."""
        return OutputFilter(self.thought_marks, starts_thinking=self.starts_thinking)


class TransformersOptions(ReasoningOptions):
    """Options of a transformers bot in `bots.yaml`."""

    model: str = Field(min_length=1, description='folder of a model, or hub id ("microsoft/DialoGPT-small").')
    system_prompt: SystemPrompt = ""
    temperature: Temperature = 0.7
    top_k: TopK = 50
    top_p: TopP = 0.9
    repetition_penalty: NumberAsWritten = Field(
        1.0, gt=0, description="above 1 discourages tokens of the context and reply; 1: off."
    )
    no_repeat_ngram_size: int = Field(0, ge=0, description="no sequence of so many tokens twice in a reply; 0: off.")
    window: int = Field(10, ge=0, description="most turns of the conversation given to the model; 0: all.")
    max_new_tokens: int = Field(60, ge=1, description="a reply's longest.")
    min_new_tokens: int = Field(
        1, ge=0, description="the end token is forbidden before; 1 keeps replies from being empty."
    )
    max_context_tokens: int | None = Field(
        None, ge=1, description="most tokens given to the model; None: what it can hold, at most 1,024."
    )
    separator: str | None = Field(
        None, description="between turns where there is no chat template; None: the end token."
    )
    stop: Many[str] = Field((), description="texts before which a reply ends.")
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description='"float32", "bfloat16", "float16", or "auto" (as the weights are stored); bfloat16 is refused on '
        "a processor that does not compute it itself.",
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub id.")
    allow_download: bool = Field(
        False, description="fetch a hub id that is not on this machine when the bot is loaded."
    )
    capacity: int = Field(64, ge=1, description="most replies under way at once.")

    @model_validator(mode="after")
    def _fits_together(self) -> TransformersOptions:
        if self.min_new_tokens > self.max_new_tokens:
            right = f"0 to max_new_tokens ({self.max_new_tokens})"
            raise ValueError(f"min_new_tokens is {self.min_new_tokens}; it must be {right}")
        return self


class CheckpointOptions(InputModel):
    """Options of a checkpoint bot in `bots.yaml`."""

    folder: str = Field(
        min_length=1, description="of the checkpoint: manifest.json, vocabulary.txt, model.safetensors."
    )
    decoding: Literal["beam", "sample", "greedy"] = Field(
        "beam", description='"beam", "sample" or "greedy"; a beam\'s reply comes in one piece, the others word by word.'
    )
    beam: int = Field(5, ge=1, description="hypotheses that beam search keeps.")
    reply_choice: Literal["best", "priority", "length"] = Field(
        "priority",
        description='among a beam\'s results: "best"; or drawn as in the paper, by rank ("priority") or by length '
        '("length").',
    )
    length_penalty: NumberAsWritten = Field(
        0.0, ge=0, description="of beam search; 0: none, larger favours longer replies (Wu et al. 2016)."
    )
    temperature: NumberAsWritten = Field(1.0, gt=0, le=10, description="of sampling; below 1 safer, above 1 wilder.")
    top_k: int = Field(0, ge=0, description="of sampling: only the k likeliest words; 0: all.")
    top_p: NumberAsWritten = Field(
        1.0, gt=0, le=1, description="of sampling: only the fewest words holding this share of the probability; 1: all."
    )
    no_repeat_ngram_size: int = Field(0, ge=0, description="no sequence of so many words twice in a reply; 0: off.")
    forbid_unknown: bool = Field(True, description="never say the unknown word.")
    window: int = Field(5, ge=0, description="most turns of the conversation given to the model; 0: all.")
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
        False, description="as in its self-play, an empty utterance stands before the conversation."
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
