"""A master that a test commands, and executors that are real processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.executor.fake_am import Guest, Master, context

#: Starts an executor of `worker:0` with this command; keyword arguments change its launch context.
Start = Callable[..., Guest]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    made = Master(tmp_path)
    yield made
    made.close()


@pytest.fixture
def guest(master: Master, tmp_path: Path) -> Iterator[Start]:
    """Starts executors, and ends whatever is left of them."""
    with ExitStack() as stack:

        def start(command: str | tuple[str, ...] = "true", **more: Any) -> Guest:
            return stack.enter_context(Guest(context(master, tmp_path, command, **more)))

        yield start
