"""Messages are compared by the facts in them, so that a test outlives their wording."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def mentions(text: object, *facts: object) -> bool:
    """Return True if every fact (a setting, value, number, name or place) is in the text, not as part of a word."""
    return all(re.search(rf"(?<!\w){re.escape(str(fact))}(?!\w)", str(text)) for fact in facts)


def mention_each(texts: Iterable[object], *facts: Sequence[object]) -> bool:
    """Return True if there are as many texts as groups of facts, and each text mentions its group."""
    found = list(texts)
    return len(found) == len(facts) and all(mentions(text, *group) for text, group in zip(found, facts, strict=True))
