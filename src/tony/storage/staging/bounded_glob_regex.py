"""Rewrites the regular expressions of globs to match in bounded time.

`*a*a*a*a*a*b` becomes `[^/]*a[^/]*a[^/]*a...`, and matching a name of many a's without a b then takes hours: every star
is tried at every length. That is unnecessary: within one part of a path, the text between two stars can be matched
where it occurs first, as the star behind it matches whatever is skipped. So star and text become one atomic group
without backtracking.
"""

from __future__ import annotations

import re

_STAR = "[^/]*"
#: Tokens of a regular expression: an escaped character, a set of characters, or one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: Tokens with a special meaning, and the slash, which no star matches.
_SPECIAL = frozenset(".^$*+?()|{}/")
_MANY = frozenset("*+?{")


def quick(regex: str) -> str:
    """Return an equivalent of a regular expression that was generated from a gitignore glob."""
    tokens = [_without_slash(token) for token in _TOKEN.findall(regex)]
    made: list[str] = []
    at = 0
    while at < len(tokens):
        if not _is_star(tokens, at):
            made.append(tokens[at])
            at += 1
            continue
        while _is_star(tokens, at):  # adjacent stars in one part are one
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
    """Return True if the token matches exactly one character."""
    many = at + 1 < len(tokens) and tokens[at + 1] in _MANY
    return tokens[at] not in _SPECIAL and not many


def _without_slash(token: str) -> str:
    """Return the token without matching a slash in a set of characters, as in git: `[!a]` is part of a name."""
    return f"(?!/){token}" if token.startswith("[") and token != "[^/]" else token
