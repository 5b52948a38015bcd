"""The question after Ctrl-C on a terminal: stop the job, detach from it, or continue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

from tony.cli.terminal.key_reader import is_keyboard, watch_keys

QUESTION = "Stop the job (s), detach (d) or continue (c)? Ctrl-C again stops it."


class QuestionViewer(Protocol):
    """Shows a question until it is answered."""

    def show_question(self, text: str) -> None:
        """Show a question; an empty text removes it."""


class InterruptQuestion:
    """The question, open or not. Needs a running event loop while it is open.

    Args:
        answers: key -> called when it is pressed; the question is closed before. Other keys have no effect.
    """

    def __init__(self, view: QuestionViewer, answers: Mapping[str, Callable[[], None]]) -> None:
        self._view = view
        self._answers = answers
        self._keys: ExitStack | None = None

    @property
    def is_open(self) -> bool:
        return self._keys is not None

    def open(self) -> bool:
        """Ask; return False if standard input cannot answer, or the question is open already."""
        if self.is_open or not is_keyboard():
            return False
        self._keys = ExitStack()
        # A key that was typed before the question is no answer to it.
        self._keys.enter_context(watch_keys(self._on_key, drop_typed=True))
        self._view.show_question(QUESTION)
        return True

    def close(self) -> None:
        """Remove the question and restore the terminal; may be called again."""
        if self._keys is not None:
            keys, self._keys = self._keys, None
            keys.close()
            self._view.show_question("")

    def _on_key(self, key: str) -> None:
        answer = self._answers.get(key.lower())
        if self.is_open and answer is not None:
            self.close()
            answer()
