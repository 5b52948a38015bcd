"""Frozen dataclasses that take less time to define."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value_class(cls: type[T]) -> type[T]:
    """Turn a class into a frozen dataclass with slots, whose fields are passed by name.

    Equality, hash and text are functions that all of them share. The standard library compiles three for each class,
    a third of its cost: for the messages, events and actions of a job an eighth of the time to load an AM.
    """
    shared: Any = cls
    shared.__eq__, shared.__hash__, shared.__repr__ = _is_equal, _hash, _text
    return dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(cls)


def _is_equal(self: Any, other: object) -> bool:
    return type(other) is type(self) and _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _text(self: Any) -> str:
    pairs = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({pairs})"


def _values(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, field.name) for field in fields(value))
