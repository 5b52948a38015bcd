"""What somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, however its case and dashes; None if none is like it."""
    by_folded = {folded(name): name for name in known}
    if folded(word) in by_folded:
        return by_folded[folded(word)]
    import difflib  # 10 ms, and only after a mistake

    close = difflib.get_close_matches(folded(word[:100]), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean "worker"?`, or `otherwise` when nothing is near."""
    name = nearest(word, known)
    return f"did you mean `{name}`?" if name else otherwise


def folded(name: str) -> str:
    """A name without regard to case, and `-` the same as `_`."""
    return name.lower().replace("-", "_")
