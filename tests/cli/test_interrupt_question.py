"""The question after Ctrl-C, with the keys of a fake keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.screen import Terminal, shown
from tony.cli import interrupt_question
from tony.cli.interrupt_question import QUESTION, InterruptQuestion
from tony.cli.live_status import LiveView
from tony.cli.plain_status import PlainView


class Keyboard:
    """Attributes: readers: who gets the keys now."""

    def __init__(self) -> None:
        self.readers: list[Callable[[str], None]] = []

    @contextmanager
    def watch(self, on_key: Callable[[str], None], *, drop_typed: bool) -> Iterator[None]:
        assert drop_typed
        self.readers.append(on_key)
        yield
        self.readers.clear()


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    keyboard = Keyboard()
    monkeypatch.setattr(interrupt_question, "is_keyboard", lambda: True)
    monkeypatch.setattr(interrupt_question, "watch_keys", keyboard.watch)
    return keyboard


def test_an_answer_closes_it(keyboard: Keyboard) -> None:
    answers: list[str] = []
    terminal = Terminal()
    question = InterruptQuestion(PlainView(terminal), {key: lambda key=key: answers.append(key) for key in "sdc"})  # type: ignore[misc]
    assert question.open()
    assert not question.open()
    for key in "x\x1bSd":
        for press in list(keyboard.readers):
            press(key)
    assert answers == ["s"]
    assert not keyboard.readers
    assert not question.is_open
    question.close()
    assert terminal.text.count(QUESTION) == 1


def test_without_a_keyboard_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt_question, "is_keyboard", lambda: False)
    terminal = Terminal()
    assert not InterruptQuestion(PlainView(terminal), {}).open()
    assert terminal.text == ""


def test_the_live_table_shows_it_until_it_is_answered(keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below everything that is printed meanwhile."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    terminal = Terminal()
    with LiveView(terminal) as view:
        question = InterruptQuestion(view, {})
        question.open()
        view.on_notice("one")
        view.on_notice("two")
        assert [row.strip() for row in shown(terminal, 80) if row.strip()][-1] == QUESTION
        question.close()
        assert not any(QUESTION in row for row in shown(terminal, 80))
