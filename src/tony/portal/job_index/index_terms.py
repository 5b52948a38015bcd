"""Search terms of a job: its words, plus reserved words that encode the filters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from tony.model.job_query import DAMAGED
from tony.model.job_summary import JobHead

#: First character of reserved words: a private-use character, which the tokenizer takes for a letter.
_MARK = "\ue000"
#: Maximum characters indexed and kept of names and messages, which can be of any length.
MAX_NAME_CHARACTERS = 200
MAX_REASON_CHARACTERS = 500
#: Values shared by many jobs, in the order of the columns of `job`.
KINDS = ("user", "state", "framework", "scheduler", "queue", "failure", "cause")
#: Kinds of filters -> second character of their reserved words.
_LETTERS = {
    "user": "u",
    "state": "s",
    "framework": "f",
    "scheduler": "m",
    "queue": "q",
    "failure": "l",
    "tag": "t",
    "reader": "r",
}
#: Maximum words of a search.
_MAX_WORDS = 12
#: Minimum letters of a last word that matches as a prefix; indexed prefixes are shorter, see `index_schema`.
_MIN_PREFIX = 2


def collect_words(head: JobHead) -> dict[str, str]:
    """Return kind -> text for every kind of `KINDS`."""
    return {
        "user": head.user,
        "state": DAMAGED if head.damaged else head.state.value,
        "framework": head.framework,
        "scheduler": head.scheduler,
        "queue": head.queue,
        "failure": head.failure_class.value if head.failure_class else "",
        "cause": head.cause,
    }


def mark(kind: str, number: int) -> str:
    """Return the reserved word of a filter value."""
    return f"{_MARK}{_LETTERS[kind]}{number}"


def build_searched_text(head: JobHead) -> str:
    """Return the searchable text of a job."""
    parts = (
        head.job,
        head.name[:MAX_NAME_CHARACTERS],
        head.user,
        *head.tags,
        (head.damaged or head.reason)[:MAX_REASON_CHARACTERS],
    )
    return "\n".join(parts).replace(_MARK, " ")


def build_expression(text: str, marks: Iterable[str]) -> str:
    """Return a full-text expression for every word of a search (the last one as a prefix) and every filter.

    A search without letters and digits matches nothing: its expression is a reserved word that no job has.

    Args:
        marks: further expressions that must match as well.
    """
    parts = [f'"{word}"' for word in [*_split_words(text)][:_MAX_WORDS]]
    if parts and len(parts[-1]) >= _MIN_PREFIX + 2:
        parts[-1] += "*"  # it may be still being typed
    if text.strip() and not parts:
        parts.append(f'"{_MARK}0"')
    return " AND ".join((*parts, *marks))


def _split_words(text: str) -> Iterator[str]:
    """Split text as the tokenizer does: a word consists of letters, digits and combining marks."""
    word = ""
    for char in text.replace(_MARK, " ").replace("\0", " "):
        if unicodedata.category(char)[0] in "LN" or unicodedata.category(char) in ("Co", "Mn", "Mc"):
            word += char
        elif word:
            yield word
            word = ""
    if word:
        yield word
