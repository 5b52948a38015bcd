"""Placeholders in a job's commands and environment: `{role}`, `{index}`, `{params.lr}`, `{address.head}`.

Commands contain many other braces (`${HOME}`, `awk '{print $1}'`, JSON), so only braces around a known name count;
everything else stays unchanged. A literal `{role}` is written `{{role}}`; `${role}` is the shell's. As in Python's
format strings an odd number of braces is a placeholder inside pairs, an even number only pairs: `{{{role}}}` gives
`{worker}`.

Values of `container_env` refer to other variables instead: `$NAME`, `${NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

#: Valid names, besides `params.NAME` and `address.ROLE` with the job's own names.
NAMES = ("role", "index", "num_tasks", "job_id", "session", "attempt")

_PARAM = "params."
_ADDRESS = "address."
_BRACES = re.compile(
    rf"(?<![${{])(\{{+)({'|'.join(NAMES)}|params\.[A-Za-z0-9_.-]+|address\.[A-Za-z0-9_-]+)(\}}+)", re.ASCII
)

_LIKE_PARAM = re.compile(r"(?<![${])\{([A-Za-z_]{4,10})\.([A-Za-z0-9_.-]+)\}(?!\})", re.ASCII)
#: Similarity from which a word counts as a typo of `params`: one letter wrong, missing or too many.
_LIKENESS = 0.8
#: Number of parameters that a message lists, and characters of a name that it shows.
_MAX_LISTED_PARAMETERS = 12
_MAX_SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderError:
    """A placeholder that cannot be filled.

    Attributes:
        position: of its opening brace in the text, from 0.
        name: the text in the braces, such as `params.lr`.
        message: what is wrong, one sentence.
    """

    position: int
    name: str
    message: str


def check(text: str, params: Collection[str], roles: Collection[str] = ()) -> list[PlaceholderError]:
    """Find placeholders of parameters and roles that the job does not have, in the order of the text.

    Args:
        params: names of the job's parameters, without `params.`.
        roles: names of its roles.
    """
    errors = []
    for match in _BRACES.finditer(text):
        if match[2] in NAMES or not _is_filled(match):
            continue
        is_role = match[2].startswith(_ADDRESS)
        if match[2].removeprefix(_ADDRESS if is_role else _PARAM) in (roles if is_role else params):
            continue
        missing = "a role that the job does not have" if is_role else "a parameter that is not in [params]"
        message = f"{{{_shorten(match[2])}}} names {missing}: {_format_names(roles if is_role else params)}"
        errors.append(PlaceholderError(position=match.start(), name=match[2], message=message))
    return errors


def _format_names(params: Collection[str]) -> str:
    if not params:
        return "the job has none"
    names = sorted(name for name in params if name.isprintable())[:_MAX_LISTED_PARAMETERS]
    more = f"{len(params) - len(names)} more"
    return f"the job has {', '.join([*map(_shorten, names), *([more] if len(names) < len(params) else [])])}"


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_SHOWN_CHARACTERS else f"{name[: _MAX_SHOWN_CHARACTERS - 1]}…"


def find_misspelled_names(text: str, params: Collection[str]) -> list[PlaceholderError]:
    """Find braces that look like a typo in `{params.NAME}` of a parameter that the job has, such as `{parms.lr}`.

    Only these: any other word in braces may be intended.
    """
    errors = []
    for match in _LIKE_PARAM.finditer(text):
        word, name = match.groups()
        if word == "params" or name not in params or not _is_like_params(word):
            continue
        shown = _shorten(name)
        message = f"{{{word}.{shown}}} is not a placeholder; did you mean {{params.{shown}}}?"
        errors.append(PlaceholderError(position=match.start(), name=f"{word}.{name}", message=message))
    return errors


def _is_like_params(word: str) -> bool:
    from difflib import SequenceMatcher  # late: rarely needed, and not by executors

    return SequenceMatcher(None, word.lower(), "params").ratio() >= _LIKENESS


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders by values, and doubled braces around a known name by single ones.

    Args:
        values: name as in the braces (`role`, `params.lr`) -> text. Other names stay unchanged.
    """

    def replace(match: re.Match[str]) -> str:
        opening, name, closing = match.groups()
        if name not in values:
            return match[0]
        depth = min(len(opening), len(closing))
        pairs = depth // 2
        inner = values[name] if depth % 2 else name
        return f"{opening[depth:]}{'{' * pairs}{inner}{'}' * pairs}{closing[depth:]}"

    return _BRACES.sub(replace, text)


def find_addressed_roles(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the roles whose address a placeholder in the texts needs."""
    return _find_names(texts, _ADDRESS)


def find_parameters(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the parameters that placeholders in the texts need."""
    return _find_names(texts, _PARAM)


def _find_names(texts: Iterable[str], kind: str) -> frozenset[str]:
    found = (match for text in texts for match in _BRACES.finditer(text) if _is_filled(match))
    return frozenset(match[2].removeprefix(kind) for match in found if match[2].startswith(kind))


def escape(text: str) -> str:
    """Return a text that `fill` turns into this one: placeholders get a second pair of braces.

    `{params.NAME}` and `{address.ROLE}` stay: without such a parameter or role they are no placeholders.
    """

    def double_braces(match: re.Match[str]) -> str:
        opening, name, closing = match.groups()
        depth = 0 if name.startswith((_PARAM, _ADDRESS)) else min(len(opening), len(closing))
        return f"{opening}{'{' * depth}{name}{'}' * depth}{closing}"

    return _BRACES.sub(double_braces, text)


def _is_filled(match: re.Match[str]) -> bool:
    return min(len(match[1]), len(match[3])) % 2 == 1


#: A reference to a variable.
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII)


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables expanded from this machine's environment; unset ones are empty."""
    return {
        name: VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), value)
        for name, value in variables.items()
    }
