"""Regular expressions of globs, made to match in time that does not explode.

`*a*a*a*a*a*b` becomes `[^/]*a[^/]*a[^/]*a...`, and a name of many a's without a b then takes hours: every star is tried
at every length. It need not be. Inside one part of a path, what stands between two stars may be taken where it is found
first: whatever a later place would leave out, the star behind it takes up. So star and text become one atomic group
that is not entered again.
"""

from __future__ import annotations

import re

_STAR = "[^/]*"
#: A regular expression's smallest pieces: an escaped character, a set of characters, or one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: Pieces that are more than a character, and the slash, which no star takes up.
_SPECIAL = frozenset(".^$*+?()|{}/")
_MANY = frozenset("*+?{")


def quick(regex: str) -> str:
    """The same, for an expression that was made from a glob of a gitignore file."""
    tokens = [_without_slash(token) for token in _TOKEN.findall(regex)]
    made: list[str] = []
    at = 0
    while at < len(tokens):
        if not _is_star(tokens, at):
            made.append(tokens[at])
            at += 1
            continue
        while _is_star(tokens, at):  # two stars in one part are one
            at += 2
        end = at
        while end < len(tokens) and _is_fixed(tokens, end):
            end += 1
        if end > at and _is_star(tokens, end):
            made.append(f"(?>[^/]*?{''.join(tokens[at:end])})")
        else:
            made += [_STAR, *tokens[at:end]]
        at = end
    return "".join(made)


def _is_star(tokens: list[str], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at] == "[^/]" and tokens[at + 1] == "*"


def _is_fixed(tokens: list[str], at: int) -> bool:
    """Whether exactly one character matches here."""
    many = at + 1 < len(tokens) and tokens[at + 1] in _MANY
    return tokens[at] not in _SPECIAL and not many


def _without_slash(token: str) -> str:
    """No set of characters takes a slash, as git has it: `[!a]` is one character of a name."""
    return f"(?!/){token}" if token.startswith("[") and token != "[^/]" else token
