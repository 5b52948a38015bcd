"""The words that users and developers read: plain English, one word for one thing (docs/glossary.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The files whose words are checked; CHANGELOG.md and tests are not among them.
FILES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(
        path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".html", ".js", ".css"} and path.is_file()
    ),
]
#: They hide who acts: the user, the client, the AM, the executor, the caller.
PRONOUN = re.compile(r"\b(?:nobody|somebody|whoever|whom|anybody|everybody)\b", re.IGNORECASE)
MOST_PRONOUNS = 30
#: A phrase that was once used here, and the term of the field.
BANNED = {
    r"meeting points?": "rendezvous",
    r"first causes?": "root cause",
    r"not charged": "does not count against max_restarts",
    r"told last": "last reported",
    r"nothing (?:was )?told": "no progress",
    r"the original(?:'s)? TonY": "LinkedIn TonY",
    r"collectors? of OpenTelemetry": "OpenTelemetry collector",
    r"(?:is|are|was|were) being ended": "stopping",
    r"for want of memory": "out of memory",
    r"it is nothing to": "no recommendations",
    r"order of somebody": "user action",
    r"nothing to end": "has already ended",
    r"how (?:a|the|your|its|this) jobs? stands?": "the status of the job",
    r"where (?:a|the|its|your) programs? stands?": "stack traces",
    r"so many": "the number of",
    r"if nothing is said": "by default",
    r"by lot": "random",
    r"whether it is certain": "Return True if",
    r"on order": "fault injection",
    r"visitors?": "user",
    r"strangers?": "unauthenticated client",
    r"mistakes?(?!\.txt)": "error",
    r"any more": "no longer",
    r"(?:is|are|was) told (?:to|again)": "is asked to, gets",
    r"(?:is|are) asked for": "is requested",
}


def hits(pattern: re.Pattern[str]) -> Iterator[str]:
    """`file:line: text` of each line that matches."""
    for path in FILES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for _ in pattern.finditer(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_pronouns_that_hide_who_acts_are_rare() -> None:
    found = list(hits(PRONOUN))
    assert len(found) <= MOST_PRONOUNS, "\n".join(found)


@pytest.mark.parametrize("phrase", BANNED)
def test_a_phrase_has_its_term(phrase: str) -> None:
    found = list(hits(re.compile(rf"\b{phrase}\b", re.IGNORECASE)))
    assert not found, f"write {BANNED[phrase]!r}:\n" + "\n".join(found)
