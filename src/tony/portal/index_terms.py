"""What of a job is searched: its words, and what is filtered by as words of its own that nobody can type."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from tony.model.job_query import DAMAGED
from tony.model.job_summary import JobHead

#: Begins the words that stand for filters: a character for private use, which the full text takes for a letter.
_MARK = "\ue000"
#: Characters that are kept of what people and programs wrote: nobody searches for more, and anybody may write more.
LONGEST_NAME, LONGEST_REASON = 200, 500
#: What many jobs share, in the order of the columns of `job`.
KINDS = ("user", "state", "framework", "scheduler", "queue", "failure", "cause")
#: What is filtered by: how the words for it begin.
_LETTERS = {
    "user": "u",
    "state": "s",
    "framework": "f",
    "scheduler": "m",
    "queue": "q",
    "failure": "l",
    "tag": "t",
    "reader": "r",
    "place": "p",
    "pinned": "k",
}
#: Words of a search that count, and characters from which the beginning of the last one is enough.
_MOST_WORDS, _PREFIX = 12, 2


def words_of(head: JobHead) -> dict[str, str]:
    """What many jobs share: kind -> text, for every kind of `KINDS`."""
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
    """The word that stands for one value."""
    return f"{_MARK}{_LETTERS[kind]}{number}"


def searched(head: JobHead) -> str:
    """The text of a job that is searched."""
    parts = (head.job, head.name[:LONGEST_NAME], head.user, *head.tags, (head.damaged or head.reason)[:LONGEST_REASON])
    return "\n".join(parts).replace(_MARK, " ")


def expression(text: str, marks: Iterable[str]) -> str:
    """What the full text is asked: every word of a search, of the last one the beginning, and every mark.

    A search of which nothing is left, because it has no letter and no digit, finds nothing: its expression is a mark
    that no job has.

    Args:
        marks: expressions of their own, which must hold as well.
    """
    parts = [f'"{word}"' for word in [*_words(text)][:_MOST_WORDS]]
    if parts and len(parts[-1]) >= _PREFIX + 2:
        parts[-1] += "*"  # it is still being typed
    if text.strip() and not parts:
        parts.append(f'"{_MARK}0"')
    return " AND ".join((*parts, *marks))


def _words(text: str) -> Iterator[str]:
    """As the tokenizer divides: letters and digits belong to a word, and so does what is put on them."""
    word = ""
    for char in text.replace(_MARK, " ").replace("\0", " "):
        if unicodedata.category(char)[0] in "LN" or unicodedata.category(char) in ("Co", "Mn", "Mc"):
            word += char
        elif word:
            yield word
            word = ""
    if word:
        yield word
