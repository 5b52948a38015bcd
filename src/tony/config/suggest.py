"""What somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable

#: Among more names than this nothing is looked for: it would take seconds, and there is no overview to be kept.
_MANY = 300
#: As many names are listed when none is near.
_LISTED = 12


def closest_match(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, however its case and dashes; None if none is like it."""
    by_folded = {folded(name): name for name in known}
    if folded(word) in by_folded:
        return by_folded[folded(word)]
    if len(by_folded) > _MANY:
        return None
    import difflib  # 10 ms, and only after a mistake

    close = difflib.get_close_matches(folded(word[:100]), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def suggest_names(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean "worker"?`, or `otherwise` when nothing is near."""
    name = closest_match(word, known)
    return f"did you mean `{name}`?" if name else otherwise


def format_known_names(names: Iterable[str]) -> str:
    """`known are a, b, c.`, cut when they are many."""
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"known are {', '.join(listed[:_LISTED])}{more}."


def folded(name: str) -> str:
    """A name without regard to case, and `-` the same as `_`."""
    return name.lower().replace("-", "_")
