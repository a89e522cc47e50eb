"""Options of language models and checkpoints in `bots.yaml`: context, sampling, reasoning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from chatbots.encoders.ei_encoders import EncoderFiles
from chatbots.generation.output_filter import OutputFilter
from chatbots.validation import InputModel, Many, NumberAsWritten

SystemPrompt = Annotated[str, Field(description="system prompt of the model.")]
Temperature = Annotated[
    NumberAsWritten,
    Field(ge=0, le=10, description="sampling temperature; 0 for the likeliest token, below 1 safer, above 1 wilder."),
]
TopK = Annotated[int, Field(ge=0, description="sample only from the k likeliest tokens; 0 for all.")]
TopP = Annotated[
    NumberAsWritten,
    Field(
        gt=0, le=1, description="sample only from the smallest set of tokens with this total probability; 1 for all."
    ),
]

_Mark = Annotated[str, Field(min_length=1)]


class ReasoningOptions(InputModel):
    """Options of reasoning tokens, common to all kinds of language models."""

    starts_thinking: bool = Field(
        False,
        description=(
            "replies begin inside reasoning, because the chat template has already written the opening marker; "
            "nothing is shown before the closing marker, such as `</think>`."
        ),
    )
    thought_marks: dict[_Mark, _Mark] = Field(
        default_factory=dict,
        description='additional opening and closing markers of reasoning: `{"<plan>": "</plan>"}`. The text between '
        "them is never shown.",
    )

    def reply_filter(self) -> OutputFilter:
        """Return a new output filter for one reply."""
        return OutputFilter(self.thought_marks, starts_thinking=self.starts_thinking)


class TransformersOptions(ReasoningOptions):
    """Options of a transformers bot in `bots.yaml`."""

    model: str = Field(min_length=1, description='folder of a model, or hub id ("microsoft/DialoGPT-small").')
    system_prompt: SystemPrompt = ""
    temperature: Temperature = 0.7
    top_k: TopK = 50
    top_p: TopP = 0.9
    repetition_penalty: NumberAsWritten = Field(
        1.0, gt=0, description="above 1, discourages tokens of the context and reply; 1 turns it off."
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="forbids repeating any sequence of this many tokens in a reply; 0 turns it off."
    )
    window: int = Field(10, ge=0, description="maximum number of turns given to the model; 0 for all.")
    max_new_tokens: int = Field(60, ge=1, description="maximum length of a reply.")
    min_new_tokens: int = Field(
        1, ge=0, description="number of tokens before which the reply cannot end; 1 prevents empty replies."
    )
    max_context_tokens: int | None = Field(
        None, ge=1, description="maximum number of tokens given to the model; None for its limit, at most 1,024."
    )
    separator: str | None = Field(
        None, description="separator between turns if there is no chat template; None for the end token."
    )
    stop: Many[str] = Field((), description="texts at which a reply ends.")
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description='"float32", "bfloat16", "float16", or "auto" (that of the stored weights); bfloat16 is rejected '
        "on CPUs without hardware support for it.",
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub id.")
    allow_download: bool = Field(
        False, description="download the model with this hub id when the bot is loaded, if it is missing."
    )
    capacity: int = Field(64, ge=1, description="maximum number of concurrent replies.")

    @model_validator(mode="after")
    def _fits_together(self) -> TransformersOptions:
        if self.min_new_tokens > self.max_new_tokens:
            right = f"0 to max_new_tokens ({self.max_new_tokens})"
            raise ValueError(f"min_new_tokens is {self.min_new_tokens}; it must be {right}")
        return self


class CheckpointOptions(InputModel):
    """Options of a checkpoint bot in `bots.yaml`."""

    folder: str = Field(
        min_length=1, description="folder of the checkpoint: manifest.json, vocabulary.txt, model.safetensors."
    )
    decoding: Literal["beam", "sample", "greedy"] = Field(
        "beam",
        description='"beam", "sample" or "greedy"; beam search returns replies in one piece, the others word by word.',
    )
    beam: int = Field(5, ge=1, description="number of hypotheses of beam search.")
    reply_choice: Literal["best", "priority", "length"] = Field(
        "priority",
        description='choice among beam search results: "best", or drawn as in the paper, by rank ("priority") or '
        'by length ("length").',
    )
    length_penalty: NumberAsWritten = Field(
        0.0,
        ge=0,
        description="length penalty of beam search; 0 for none, larger values favour longer replies (Wu et al. 2016).",
    )
    temperature: NumberAsWritten = Field(
        1.0, gt=0, le=10, description="sampling temperature; below 1 is safer, above 1 wilder."
    )
    top_k: int = Field(0, ge=0, description="sample only from the k likeliest words; 0 for all.")
    top_p: NumberAsWritten = Field(
        1.0,
        gt=0,
        le=1,
        description="sample only from the smallest set of words with this total probability; 1 for all.",
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="forbids repeating any sequence of this many words in a reply; 0 turns it off."
    )
    forbid_unknown: bool = Field(True, description="never generate the unknown word.")
    window: int = Field(5, ge=0, description="maximum number of turns given to the model; 0 for all.")
    max_tokens: int = Field(30, ge=1, description="maximum length of a reply, in words and punctuation marks.")
    min_tokens: int = Field(1, ge=1, description="minimum length of a reply; 1 prevents empty replies.")
    projection: Literal["float32", "int8"] = Field(
        "float32",
        description='"int8" computes the projection onto the vocabulary in integers, which is faster on CPUs but '
        "occasionally changes a reply; not for Transformers or GPUs.",
    )
    z_conv: Literal["drawn", "inferred", "redrawn"] | None = Field(
        None,
        description='VHCR\'s variable of the conversation: "drawn" once, "inferred" from the context, or "redrawn" '
        "at every reply as in the released code; none for the checkpoint's setting.",
    )
    compat_beam_states: bool = Field(
        False,
        description=(
            "reproduce the released code, whose beam search reads the state of an older message: with a beam of 5, "
            "the latest is ignored at 3 turns and from 5 on."
        ),
    )
    compat_full_stop: bool = Field(
        False, description="reproduce the released code: add a full stop to utterances without an end mark."
    )
    compat_empty_first: bool = Field(
        False, description="reproduce the released code's self-play: begin the conversation with an empty utterance."
    )
    encoder_files: EncoderFiles | None = Field(
        None,
        description="paths of DeepMoji and InferSent, for a model trained as input_only with them: "
        "{deepmoji: {weights, vocabulary}, infersent: {weights, vectors}}.",
    )
    capacity: int = Field(64, ge=1, description="maximum number of concurrent replies.")

    @model_validator(mode="after")
    def _fits_together(self) -> CheckpointOptions:
        if self.min_tokens > self.max_tokens:
            right = f"1 to max_tokens ({self.max_tokens})"
            raise ValueError(f"min_tokens is {self.min_tokens}; it must be {right}")
        return self
