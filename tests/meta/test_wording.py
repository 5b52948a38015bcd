"""The words that users and developers read: plain English, one word for one thing (docs/glossary.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: All but tests and CHANGELOG.md.
FOLDERS = ("README.md", "docs", "src", "bench", "scripts", "examples")
SUFFIXES = {".py", ".md", ".toml", ".html", ".js", ".css"}
#: They hide who acts: the user, the client, the AM, the executor, the caller.
PRONOUN = re.compile(r"\b(?:nobody|somebody|whoever|whom|anybody|everybody)\b")
#: Phrases in tests, their names included. It only falls.
MOST_PHRASES_IN_TESTS = 135
#: A phrase that was once used here, and the term of the field.
BANNED = {
    r"meeting points?": "rendezvous",
    r"first causes?": "root cause",
    r"not charged": "does not count against max_restarts",
    r"told last": "last reported",
    r"nothing (?:was )?told": "no progress",
    r"the original(?:'s)? tony": "LinkedIn TonY",
    r"collectors? of opentelemetry": "OpenTelemetry collector",
    r"(?:is|are|was|were) being ended": "stopping",
    r"(?:for )?want of": "not enough, out of",
    r"it is nothing to": "no recommendations",
    r"order of somebody": "user action",
    r"nothing to end": "has already ended",
    r"how (?:a|the|your|its|this) jobs? stands?": "the status of the job",
    r"how (?:it|they) stands?": "its status",
    r"where (?:a|the|its|your) programs? stands?": "stack traces",
    r"so many": "the number of",
    r"if nothing is said": "by default",
    r"by (?:lot|chance)": "random",
    r"whether it is certain": "Return True if",
    r"on order": "fault injection",
    r"visitors?": "user",
    r"strangers?": "unauthenticated client",
    r"mistakes?(?!\.txt)": "error",
    r"any more": "no longer",
    r"(?:is|are|was) told (?:to|again)": "is asked to, gets",
    r"(?:is|are) asked for": "is requested",
    r"(?:is|are) fine": "is valid",
    r"(?:is|are|was|were) over": "has finished, has exited",
    r"go(?:es)? on": "continues",
    r"stands? still|stood still": "does not progress, is suspended",
    r"gives? back": "release",
    r"gives? way": "release and retry",
    r"hand(?:s|ed)? (?:on|over)": "forward, pass",
    r"lays? down": "copy, write, extract",
    r"in safety": "durable, persisted",
    r"held for nothing": "reserved but unused",
    r"what was measured": "metrics",
    r"what was set": "settings",
    r"alongside": "next to",
    r"bad luck": "failure modes, coincidence",
    r"waiting lines?": "queue",
    r"container sources?": "container allocator",
    r"who gives": "the scheduler, named",
    r"modifiers?": "editors",
    r"papers?": "launch payload, launch files",
    r"parcels?": "artifacts",
    r"wishes": "staging requests",
    r"deposit(?:s|ed)?|depots?": "cache, upload",
    r"doors?": "authentication, authorization",
    r"preparations?": "container setup",
    r"leftovers?": "orphan processes, remaining files",
    r"strays?": "orphans",
    r"misfits?": "unsatisfiable requests",
    r"appetites?": "resource limits",
    r"summons|summoning": "reattach request",
    r"adoptions?": "reattach, container recovery",
    r"presumed": "unconfirmed",
    r"standstill": "gang deadlock",
    r"struck|strikes?|blows?": "fault injection, inject",
    r"played": "fake",
    r"forerunners?": "previous AM attempt",
    r"steers?": "control characters",
}


PHRASE = re.compile(rf"\b(?:{'|'.join(BANNED)})\b")


def test_no_pronoun_hides_who_acts() -> None:
    found = list(_search(PRONOUN, *FOLDERS, "tests"))
    assert not found, "\n".join(found)


def test_each_phrase_has_its_term() -> None:
    found = list(_search(PHRASE, *FOLDERS))
    assert not found, "\n".join(found)


def test_phrases_in_tests_become_fewer() -> None:
    found = list(_search(PHRASE, "tests"))
    assert len(found) <= MOST_PHRASES_IN_TESTS, "\n".join(found)


def _search(pattern: re.Pattern[str], *folders: str) -> Iterator[str]:
    """Yield file, first line of the paragraph, words around the match, and the term to write instead."""
    for folder in folders:
        for place, text in _list_paragraphs(folder):
            for match in pattern.finditer(text):
                around = text[max(0, match.start() - 40) : match.end() + 40]
                yield f"{place}: {around!r}{_suggest_term(match[0])}"


@cache
def _list_paragraphs(folder: str) -> list[tuple[str, str]]:
    """List `file:line` and text of each paragraph: its lines joined, in lower case, names of tests as words."""
    found = []
    for path in _list_files(folder):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for is_blank, paragraph in groupby(lines, key=lambda line: not line[1].strip()):
            numbers, texts = zip(*paragraph, strict=True)
            text = " ".join(re.sub(r"^[\s#:/*>]+|^f?[\"']|[\"']$", "", text.strip()) for text in texts).lower()
            text = re.sub(r"\btest_\w+", lambda name: name[0].replace("_", " "), text)
            if not is_blank:
                found.append((f"{path.relative_to(ROOT)}:{numbers[0]}", text))
    return found


def _list_files(folder: str) -> list[Path]:
    """List the files that hold words; most scripts have no suffix."""
    suffixes = SUFFIXES | {""} if folder == "scripts" else SUFFIXES
    paths = [ROOT / folder, *sorted((ROOT / folder).rglob("*"))]
    return [path for path in paths if path.suffix in suffixes and path.is_file() and path != Path(__file__)]


def _suggest_term(words: str) -> str:
    terms = (term for phrase, term in BANNED.items() if re.fullmatch(phrase, words))
    return "".join(f"; write {term!r}" for term in terms)
