"""Regular expressions of a job or site for lines of output: which ones are refused, and the words of a match.

A match must never take long, whatever a program prints: `re` tries all ways to match, so repetitions may not be nested,
and the number of ways is bounded. And most output must not be searched at all: each pattern has words, one of which is
in every line that it matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

#: Bytes of a line that are searched.
SEARCHED_BYTES = 500
#: Characters of a pattern.
MAX_PATTERN_LENGTH = 300
#: Characters of the shortest word that keeps a search for it cheap and its finds rare.
MIN_WORD_LENGTH = 3
#: Ways to match one line that are tried at most: about a tenth of a second.
_MAX_WAYS = 2e8
#: Alternatives with words of their own.
_MAX_WORDS = 20
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_LINE_STARTS = ("AT_BEGINNING", "AT_BEGINNING_STRING")
_LOOKAROUNDS = ("ASSERT", "ASSERT_NOT")
_REFERENCES = ("GROUPREF", "GROUPREF_EXISTS")

#: A part of a parsed pattern: its operator by name, and its argument.
_Part = tuple[str, Any]


def explain_refusal(pattern: str) -> str:
    """Return what is wrong with a pattern, and what to write instead; empty if it can be used."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"{len(pattern)} characters are too long; a pattern may have at most {MAX_PATTERN_LENGTH}."
    try:
        re.compile(pattern)
        parts = _parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"it is not a regular expression: {error}."
    if re.search(pattern, "") or _find_width(pattern) == 0:
        return "it can match an empty text, so it would match every line. Write a part that must be there."
    if any(name in _REFERENCES for name, _ in _walk(parts)):
        return "it refers back to a group, which can take very long. Write the text instead."
    if _has_nested_repeat(parts):
        return "it repeats a part that has a repetition or a choice itself, which can take very long. Repeat one part."
    is_anchored = bool(parts) and parts[0][0] == "AT" and parts[0][1].name in _LINE_STARTS
    ways = _count_ways(parts) * (1 if is_anchored else SEARCHED_BYTES)
    if ways > _MAX_WAYS:
        return "it has too many repetitions, so a search can take very long. Use fewer, or with a limit: [0-9]{1,9}."
    if not find_words(pattern):
        return f"it has no word of {MIN_WORD_LENGTH} or more letters that every match contains. Write one."
    return ""


@cache
def find_words(pattern: str) -> tuple[bytes, ...]:
    """Return words in small letters, one of which is in each line that the pattern matches; empty if there are none."""
    words = _choose_words(_parse(pattern))
    usable = 0 < len(words) <= _MAX_WORDS and min(map(len, words)) >= MIN_WORD_LENGTH
    return tuple(dict.fromkeys(word.encode() for word in words)) if usable else ()


def _parse(pattern: str) -> Sequence[_Part]:
    return _to_parts(_load_parser().parse(pattern))


def _find_width(pattern: str) -> int:
    """Return the least number of characters of a match."""
    return int(_load_parser().parse(pattern).getwidth()[0])


def _load_parser() -> Any:
    """Return the parser of `re`: part of Python since 3.11 under this name."""
    return import_module("re._parser")


def _to_parts(parsed: Iterable[tuple[Any, Any]]) -> Sequence[_Part]:
    return [(operator.name, argument) for operator, argument in parsed]


def _list_inner(part: _Part) -> Sequence[Sequence[_Part]]:
    """Return the sequences that a part consists of."""
    name, argument = part
    if name in _REPEATS:
        return [_to_parts(argument[2])]
    if name == "BRANCH":
        return [_to_parts(each) for each in argument[1]]
    if name == "SUBPATTERN":
        return [_to_parts(argument[3])]
    if name in _LOOKAROUNDS:
        return [_to_parts(argument[1])]
    return [_to_parts(argument)] if name == "ATOMIC_GROUP" else []


def _walk(parts: Sequence[_Part]) -> Iterable[_Part]:
    for part in parts:
        yield part
        for inner in _list_inner(part):
            yield from _walk(inner)


def _has_nested_repeat(parts: Sequence[_Part]) -> bool:
    """Return True if a part that is repeated, or looked for ahead, has a choice or a repetition itself."""
    for name, argument in _walk(parts):
        repeats = name in _REPEATS and argument[1] > 1
        if repeats or name in _LOOKAROUNDS:
            for inner in _list_inner((name, argument)):
                if any(each in (*_REPEATS, "BRANCH") for each, _ in _walk(inner)):
                    return True
    return False


def _count_ways(parts: Sequence[_Part]) -> float:
    """Return in how many ways a search can try to match at one place, at most."""
    ways = 1.0
    for part in parts:
        name, argument = part
        inner = [_count_ways(each) for each in _list_inner(part)]
        if name in _REPEATS:
            ways *= min(int(argument[1]) - int(argument[0]), SEARCHED_BYTES) + 1
        elif inner:
            ways *= sum(inner)
    return ways


def _choose_words(parts: Sequence[_Part]) -> list[str]:
    """Return the words of the part whose shortest word is longest."""
    found: list[list[str]] = []
    run = ""
    for part in [*parts, ("END", None)]:
        name, argument = part
        if name == "LITERAL" and argument < 128:
            run += chr(argument).lower()
            continue
        if run:
            found.append([run])
        run = ""
        if name == "SUBPATTERN" or name == "ATOMIC_GROUP" or (name in _REPEATS and argument[0] > 0):
            found.append(_choose_words(_list_inner(part)[0]))
        elif name == "BRANCH":
            alternatives = [_choose_words(each) for each in _list_inner(part)]
            found.append([word for words in alternatives for word in words] if all(alternatives) else [])
    return max((words for words in found if words), key=lambda words: min(map(len, words)), default=[])
