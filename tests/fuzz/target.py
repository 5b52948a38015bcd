"""What a fuzz target is, and what must hold for every one of them.

A target is a function of bytes that calls one parser with them. It returns, or it raises one of the errors that this
parser is documented to raise; whatever else it raises is a find. So is an error that says nothing, says too much, or
contains control characters, and so is an input that takes more time or memory than its size allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.input_costs import bounded
from tony.errors import ConfigError

#: Characters of an error, whatever it is about. A sentence or three, a path or two, and a value cut short.
LONGEST_MESSAGE = 2000


class BadMessageError(AssertionError):
    """An error of the right class whose text is empty, useless or hostile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser.

    Attributes:
        name: also that of its corpus.
        run: gives it the bytes. Everything that it needs and makes is gone or empty when it is called again.
        errors: what it may raise.
        seeds: inputs to begin with, proper ones first of all: fuzzers change what they are given.
        tokens: words that its inputs are made of and chance would not find.
        json: lines of its inputs are JSON, and are to be changed as such, too.
        longest: bytes of an input that a fuzzer tries; longer ones find no other branches, only more slowly.
        memory, memory_per_byte: bytes that it may take at the worst moment: so many, and so many for each of the input.
        seconds, seconds_per_byte: likewise, of processor time. Generous: only what grows out of proportion shall be
            found, also with coverage measured.
    """

    name: str
    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]
    tokens: tuple[bytes, ...] = ()
    json: bool = False
    longest: int = 4096
    memory: int = 8 << 20
    memory_per_byte: int = 200
    seconds: float = 5.0
    seconds_per_byte: float = 50e-6


def hold(true: object, about: object) -> None:
    """An assertion, for use where an error is being handled.

    Raises:
        AssertionError: it is not so.
    """
    if not true:
        raise AssertionError(about)


def check(target: Target, data: bytes, *, exact: bool = True) -> None:
    """Gives a target one input.

    Args:
        exact: measure memory to the byte, which takes several times as long.

    Raises:
        BaseException: whatever is wrong with how it took it.
    """
    size = len(data)
    with bounded(
        seconds=target.seconds + size * target.seconds_per_byte,
        memory=target.memory + size * target.memory_per_byte,
        exact=exact,
    ):
        logging.disable(logging.CRITICAL)
        try:
            target.run(data)
        except target.errors as error:
            check_message(error)
        finally:
            logging.disable(logging.NOTSET)


def check_message(error: Exception) -> None:
    """Holds the text of an error, or each of its problems, to what a person can read.

    Raises:
        BadMessageError: it is empty, very long, or has characters that a terminal would act on.
    """
    texts = [str(problem) for problem in error.problems] if isinstance(error, ConfigError) else [str(error)]
    for text in texts:
        if not text.strip():
            raise BadMessageError(f"{type(error).__name__} says nothing") from error
        if len(text) > LONGEST_MESSAGE:
            raise BadMessageError(f"{type(error).__name__} says {len(text)} characters: {text[:200]!a}...") from error
        if not all(line.isprintable() for line in text.split("\n")):
            raise BadMessageError(f"{type(error).__name__} says what cannot be shown: {text[:200]!a}") from error
