"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from tony.units import format_first

#: Most known names that are compared for similarity: more would take seconds.
_MAX_COMPARED = 300
#: Most known names that are listed if none is near.
_MAX_LISTED = 12


def find_closest_match(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, ignoring case and dashes; None if none is similar."""
    by_folded = {fold_name(name): name for name in known}
    if fold_name(word) in by_folded:
        return by_folded[fold_name(word)]
    if len(by_folded) > _MAX_COMPARED:
        return None
    import difflib  # late: 10 ms, and only needed after an error

    close = difflib.get_close_matches(fold_name(word[:100]), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def find_similar_file(path: Path, suffixes: Collection[str]) -> str:
    """Return the name of a file next to a missing one that is similar and has a suffix; empty if there is none."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix in suffixes]
    except OSError:
        names = []
    return find_closest_match(path.name, sorted(names)[:_MAX_COMPARED]) or ""


def suggest_names(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean `worker`?`, or `otherwise` if nothing is near."""
    name = find_closest_match(word, known)
    return f"did you mean `{name}`?" if name else otherwise


def format_known_names(names: Iterable[str]) -> str:
    """Return `known: a, b, c.`, cut if there are many."""
    return f"known: {format_first(list(names), _MAX_LISTED)}."


def describe_unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return `unknown role "worker1"; did you mean `worker`?`, or the known names if none is near.

    Args:
        what: kind of name, with the name itself unless that is shown elsewhere.
    """
    return f"unknown {what}; {suggest_names(name, known, format_known_names(known))}"


def fold_name(name: str) -> str:
    """Return a name in lower case, with `-` as `_`."""
    return name.lower().replace("-", "_")
