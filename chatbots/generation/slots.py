"""One reply under way: the random numbers it is drawn with, its tokens, and what of its text was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chatbots.base import BotError, Piece
from chatbots.conversation import Conversation
from chatbots.generation.decoding import NgramBan, uniform_numbers
from chatbots.generation.detokenise import GrowingText
from chatbots.generation.template_marks import ReplyFilter

NO_NUMBERS = "the model computed no numbers (NaN)"


class Slot:
    """A conversation's place in a running batch, whatever model computes it.

    Args:
        number: what the batch knows it by.
        context: the conversation; its reply's seed decides every choice.
        max_tokens: the reply's longest.
        no_repeat_ngram_size: no sequence of so many tokens twice in the reply; 0: off.
        stops: texts before which the reply ends.
        prompt: token ids that the model reads first, where it reads some.
    """

    def __init__(
        self,
        number: int,
        context: Conversation,
        *,
        max_tokens: int,
        no_repeat_ngram_size: int = 0,
        stops: Sequence[str] = (),
        make_filter: Callable[[], ReplyFilter] | None = None,
        prompt: Sequence[int] = (),
    ) -> None:
        self.number = number
        self.max_tokens = max_tokens
        self.context = context
        self.prompt = list(prompt)
        self.said = ""
        """What was shown of the reply."""
        self.place = (context.id, context.turns[-1].speaker if context.turns else "")
        """Conversation and who spoke last in it: in self-play a bot has two places in one conversation."""
        self.tokens: list[int] = []
        self.gone = False
        """Finished or cancelled; its row is dropped with the next ones."""
        self._uniforms = uniform_numbers(context.reply_seed, max_tokens)
        self._ban = NgramBan(no_repeat_ngram_size) if no_repeat_ngram_size else None
        self._text = GrowingText(stops, make_filter=make_filter)

    @property
    def uniform(self) -> float:
        """The number in [0, 1) that chooses the next token."""
        return self._uniforms[len(self.tokens)]

    @property
    def is_full(self) -> bool:
        """True if the reply is as long as it may be."""
        return len(self.tokens) >= self.max_tokens

    def forbidden(self) -> set[int]:
        """Return the tokens that would repeat a sequence of this reply."""
        return self._ban.forbidden() if self._ban else set()

    def say(self, token: int) -> None:
        """Take up the next token."""
        self.tokens.append(token)
        if self._ban:
            self._ban.add(token)

    def piece(self, text: str, *, ended: bool) -> Piece:
        """Return the next piece of the reply.

        Args:
            text: of all its tokens so far.
            ended: the model has said that it ends here.
        """
        if ended or self.is_full:
            return self.last_piece(text, cut=not ended)
        try:
            shown, stopped = self._text.grow(text)
        except BotError as error:  # of this reply alone
            return Piece(self.number, done=True, error=str(error))
        self.said += shown
        return Piece(self.number, shown, done=stopped)

    def last_piece(self, text: str, *, cut: bool) -> Piece:
        """Return the rest of the reply.

        Args:
            cut: it was cut off, so a sentence that is not complete is left out.
        """
        try:
            shown = self._text.end(text, cut=cut)
        except BotError as error:
            return Piece(self.number, done=True, error=str(error))
        self.said += shown
        return Piece(self.number, shown, done=True)
