"""`dataclasses.dataclass` with slots, whose methods are compiled only when needed.

Each tony process defines over a hundred of these classes and uses about twenty. The standard library compiles five
methods for each, which made up half of the time of all imports (decision 0008). Here defining a class costs no more
than its body; `__init__` is compiled once a class is used often, and nothing else is.

For type checkers this *is* the standard library's decorator, and its functions (`fields`, `replace`, `asdict`...)
accept these classes. What this project does not use is left out: `slots=False`, `order`, `InitVar`...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    from operator import attrgetter

    #: No default: the argument must be given.
    MISSING = object()
    #: Attribute of a class that holds its fields, own and inherited: name -> Field.
    _OWN = "__tony_fields__"
    #: Objects from which on compiling `__init__` pays off: it takes about 100 µs and saves a few for each object.
    _COMPILE_AFTER = 32

    class Field:
        """One field of a dataclass."""

        __slots__ = ("default", "default_factory", "name", "repr", "type")

        def __init__(self, default=MISSING, default_factory=MISSING, repr=True):  # noqa: A002 - the library's name
            self.name = ""
            self.type = ""
            self.default = default
            self.default_factory = default_factory
            self.repr = repr

    def field(*, default=MISSING, default_factory=MISSING, repr=True):  # noqa: A002
        """Declare a field with more than a plain default."""
        return Field(default, default_factory, repr)

    def dataclass(cls=None, /, *, frozen=False, slots=True, kw_only=False, eq=True):
        """Make a class with slots from an annotated one; the arguments mean the same as in the standard library."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        if not slots:
            raise TypeError(f"{cls.__name__}: write slots=True")
        names = {**cls.__dict__, "__annotations__": cls.__annotations__}
        own = _fields_of(names)
        inherited = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(base.__dict__.get(_OWN, {}))
        every = {**inherited, **own}
        for name in ("__dict__", "__weakref__"):
            names.pop(name, None)
        names["__slots__"] = tuple(name for name in own if name not in inherited)
        names[_OWN] = every
        names["__dataclass_fields__"] = _LIBRARY
        names["__match_args__"] = () if kw_only else tuple(every)
        if "__init__" not in names:
            names["__init__"] = _first_init(kw_only, frozen)
        names.setdefault("__repr__", _repr)
        if frozen:
            names.update(__setattr__=_refuse, __delattr__=_refuse, __getstate__=_state, __setstate__=_restore)
        if eq:
            _compare(names, tuple(every), frozen)
        made = type(cls)(cls.__name__, cls.__bases__, names)
        made.__qualname__ = cls.__qualname__
        return made

    def _fields_of(names):
        """Collect the fields declared in a class body and remove their defaults, whose names the slots need."""
        own = {}
        for name, hint in names["__annotations__"].items():
            if str(hint).removeprefix("typing.").startswith("ClassVar"):
                continue
            default = names.pop(name, MISSING)
            each = default if isinstance(default, Field) else Field(default)
            each.name, each.type = name, hint
            own[name] = each
        return own

    def _compare(names, keys, frozen):
        key = attrgetter(*keys) if keys else _nothing

        def __eq__(self, other):  # noqa: N807
            if other.__class__ is not self.__class__:
                return NotImplemented
            return key(self) == key(other)

        def __hash__(self):  # noqa: N807
            return hash(key(self))

        names.setdefault("__eq__", __eq__)
        names.setdefault("__hash__", __hash__ if frozen else None)

    def _nothing(_):
        return ()

    def _first_init(kw_only, frozen):
        """Return an `__init__` that needs no compiling, for the first objects and the usual cases."""
        plan, left = None, _COMPILE_AFTER

        def __init__(self, /, *args, **kwargs):  # noqa: N807
            nonlocal plan, left
            plan = plan or _Plan(type(self), kw_only)
            left -= 1
            given = plan.bound(args, kwargs)
            if left > 0 and given is not None and plan.fill(self, given):
                return
            cls = next(each for each in type(self).__mro__ if each.__dict__.get("__init__") is __init__)
            cls.__init__ = _written_init(cls, kw_only, frozen)
            cls.__init__(self, *args, **kwargs)

        return __init__

    class _Plan:
        """The steps that fill the fields of a new object."""

        __slots__ = ("names", "steps")

        def __init__(self, cls, kw_only):
            every = getattr(cls, _OWN)
            self.names = () if kw_only else tuple(every)
            self.steps = [
                (name, getattr(cls, name).__set__, each.default, each.default_factory) for name, each in every.items()
            ]
            if hasattr(cls, "__post_init__"):
                self.steps = None

        def bound(self, args, kwargs):
            """Return the arguments by name; None if they do not match the fields."""
            if not args:
                return kwargs
            given = {**dict(zip(self.names, args, strict=False)), **kwargs}
            return given if len(given) == len(args) + len(kwargs) else None

        def fill(self, it, given):
            """Fill the object and return True; return False if it must be filled by another `__init__`."""
            if self.steps is None:
                return False
            known = 0
            for name, put, default, make in self.steps:
                if name in given:
                    known += 1
                    put(it, given[name])
                elif default is not MISSING:
                    put(it, default)
                elif make is not MISSING:
                    put(it, make())
                else:
                    return False
            return known == len(given)

    def _written_init(cls, kw_only, frozen):
        known = {"_MISSING": MISSING}
        heads, lines = ["*"] if kw_only else [], []
        for name, each in cls.__dict__[_OWN].items():
            value = name
            if each.default_factory is not MISSING:
                known[f"_make_{name}"] = each.default_factory
                heads.append(f"{name}=_MISSING")
                value = f"_make_{name}() if {name} is _MISSING else {name}"
            elif each.default is not MISSING:
                known[f"_default_{name}"] = each.default
                heads.append(f"{name}=_default_{name}")
            else:
                heads.append(name)
            if frozen:
                known[f"_set_{name}"] = getattr(cls, name).__set__
                lines.append(f" _set_{name}(self, {value})")
            else:
                lines.append(f" self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        head = ", ".join(["self", *heads] if cls.__dict__[_OWN] else ["self"])
        exec(f"def __init__({head}):\n" + "\n".join(lines or [" pass"]), known)
        written = known["__init__"]
        written.__qualname__ = f"{cls.__qualname__}.__init__"
        return written

    def _repr(self):
        cls = type(self)
        shown = [f"{name}={getattr(self, name)!r}" for name, each in getattr(cls, _OWN).items() if each.repr]
        return f"{cls.__qualname__}({', '.join(shown)})"

    def _refuse(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    def _state(self):
        return [getattr(self, name) for name in getattr(type(self), _OWN)]

    def _restore(self, state):
        for name, value in zip(getattr(type(self), _OWN), state, strict=True):
            object.__setattr__(self, name, value)

    class _Library:
        """Builds `__dataclass_fields__` on first access; the standard library recognises a dataclass by it."""

        def __get__(self, instance, cls):
            import dataclasses

            columns = []
            for name, each in getattr(cls, _OWN).items():
                given = {"default": each.default, "default_factory": each.default_factory}
                given = {key: value for key, value in given.items() if value is not MISSING}
                columns.append((name, each.type, dataclasses.field(repr=each.repr, kw_only=True, **given)))
            made = dataclasses.make_dataclass(cls.__name__, columns).__dataclass_fields__
            type.__setattr__(cls, "__dataclass_fields__", made)
            return made

    _LIBRARY = _Library()

    def fields(cls):
        """Return the fields of a dataclass (or of its instance), in order."""
        return tuple(getattr(cls, _OWN).values())

    def is_dataclass(cls):
        """Return True for a dataclass made here, and for its instances."""
        return hasattr(cls, _OWN)

    def replace(instance, /, **changes):
        """Return a copy in which some fields have other values."""
        cls = type(instance)
        for name in getattr(cls, _OWN):
            if name not in changes:
                changes[name] = getattr(instance, name)
        return cls(**changes)
