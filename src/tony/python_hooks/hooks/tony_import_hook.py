"""Calls a function when the program has imported a module. Programs that do not import it are not affected."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` would slow down every start of Python
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def call_after_import(name: str, function: Callable[[Any], None]) -> None:
    """Call a function once with the module of that name, when it is imported. Its exceptions are ignored."""
    sys.meta_path.insert(0, _Finder(name, function))


class _Finder:
    """Finds that one module like the other finders, and replaces its loader."""

    def __init__(self, name: str, function: Callable[[Any], None]) -> None:
        self._name, self._function = name, function

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _CallingLoader(spec.loader, self._function)  # type: ignore[assignment]
                return spec
        return None


class _CallingLoader:
    """Delegates to the module's own loader, then calls the function."""

    def __init__(self, loader: Any, function: Callable[[Any], None]) -> None:
        self._loader, self._function = loader, function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._function(module)
        except Exception:  # an unknown version of the library: it works without
            pass
