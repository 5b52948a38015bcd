"""Hypothesis strategies for the nouns, events and messages, made from their type hints."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from tony.core.deadline import TASK_DEADLINES, Deadline, DeadlineKind
from tony.model.ids import TaskId

#: Text that can be written as UTF-8: no half characters.
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**64 - 1)
ROLES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True)
TASKS = st.builds(TaskId, ROLES, st.integers(0, 99_999))

#: Anything that JSON can say.
PLAIN = st.recursive(
    st.none() | st.booleans() | WHOLE | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

_SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    Any: PLAIN,
    str: TEXT,
    int: WHOLE,
    bool: st.booleans(),
    float: NUMBERS,
    type(None): st.none(),
    TaskId: TASKS,
    Deadline: st.one_of(
        st.builds(Deadline, st.sampled_from(sorted(TASK_DEADLINES, key=str)), TASKS),
        st.builds(
            Deadline, st.sampled_from([kind for kind in DeadlineKind if kind not in TASK_DEADLINES]), TEXT | st.none()
        ),
    ),
}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        cls: Any = hint
        return st.builds(cls, **{field.name: values(hints[field.name]) for field in dataclasses.fields(hint)})
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    raise TypeError(f"no values for {hint!r}")
