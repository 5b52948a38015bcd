"""Writes on request which collective operations this process has joined, from PyTorch's flight recorder.

PyTorch records its last collective operations if TORCH_FR_BUFFER_SIZE is not 0. When the program has created its
process group, a thread waits at a pipe; for each byte it writes a summary of that record, one line of JSON, to an
anonymous file. A thread, because a main thread that waits in a collective operation runs no Python, and so no handler
of a signal. The executor finds the file by its name, which also has the pid and the pipe
(`executor/program/collective_dump.py`); other users cannot open it.

The line: `{"rank": 1, "groups": [{"id": "3:1c2f9a40:0", "label": "default_pg", "size": 3, "last": 204, "calls":
[[203, "all_reduce", "Float [1024]", true], ...]}]}`. `last` is null if not known. Calls have their number within the
group, and whether they are done: the first that are not, and the last ones.

For Python 3.8 and newer; `sitecustomize` imports it where the variable is set.
"""

from __future__ import annotations

import os
import sys

from tony_descriptors import move_up  # type: ignore[import-not-found]  # next to this file
from tony_import_hook import call_after_import  # type: ignore[import-not-found]  # next to this file

TYPE_CHECKING = False  # importing `typing` would slow down every start of Python
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_VARIABLE = "TORCH_FR_BUFFER_SIZE"
#: Its name before the recorder was extended to gloo; newer versions warn about it.
_OLD_VARIABLE = "TORCH_NCCL_TRACE_BUFFER_SIZE"
#: Functions of PyTorch that return the record: of NCCL, and of all other backends that are recorded, such as gloo.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
_FILE = "tony-collectives"
#: Bounds of the summary: groups, the last ones used; calls of each; characters of a text.
_MAX_GROUPS = 12
_MAX_PENDING = 4
_MAX_LAST = 4
_MAX_CHARACTERS = 80


def install() -> None:
    """Start the thread when the program has created its process group."""
    call_after_import("torch.distributed.distributed_c10d", _watch)


def _watch(module: Any) -> None:
    core = sys.modules["torch._C._distributed_c10d"]
    if not any(hasattr(core, name) for name in _DUMPS):
        return
    if not hasattr(core, _DUMPS[-1]):
        os.environ.setdefault(_OLD_VARIABLE, os.environ[_VARIABLE])
    update, started = module._update_default_pg, []

    def update_default_pg(group: Any) -> None:
        update(group)
        if group is not None and os.getpid() not in started:
            started.append(os.getpid())
            try:
                _start_thread(module, core)
            except Exception:  # the program continues without
                pass

    module._update_default_pg = update_default_pg


def _start_thread(module: Any, core: Any) -> None:
    import threading

    reader, writer = (move_up(number) for number in os.pipe())
    name = f"{_FILE}.{os.getpid()}.{reader}.{os.fstat(reader).st_ino}"
    answer = move_up(os.memfd_create(name))
    # The writer stays open: without one, reading would return at once.
    threading.Thread(target=_serve, args=(module, core, reader, writer, answer), name="tony", daemon=True).start()


def _serve(module: Any, core: Any, reader: int, writer: int, answer: int) -> None:
    import json

    while os.read(reader, 64):
        try:
            text = json.dumps(_summarize(module, core))
        except Exception as error:  # an unknown version of PyTorch
            text = json.dumps({"problem": repr(error)[:_MAX_CHARACTERS]})
        os.pwrite(answer, text.encode() + b"\n", 0)


def _summarize(module: Any, core: Any) -> dict[str, Any]:
    import zlib

    world = module._world
    entries, is_complete = _read_entries(core)
    calls: dict[str, dict[int, list[Any]]] = {}
    labels: dict[str, str] = {}
    for entry in entries:
        name, description = entry["process_group"]
        labels[name] = name if description == "undefined" else description
        calls.setdefault(name, {})[entry["collective_seq_id"]] = _describe_call(entry)
    groups = []
    for group, name in list(world.pg_names.items()):
        ranks = sorted(world.pg_group_ranks[group])  # names alone are not unique among processes
        done = calls.get(name, {})
        groups.append(
            {
                "id": f"{len(ranks)}:{zlib.crc32(repr(ranks).encode()):08x}:{name[:_MAX_CHARACTERS]}",
                "label": "default_pg" if group is world.default_pg else labels.get(name, name)[:_MAX_CHARACTERS],
                "size": len(ranks),
                "last": max(done, default=0 if is_complete else None),
                "calls": _select_calls([done[number] for number in sorted(done)]),
            }
        )
    groups.sort(key=lambda each: not each["calls"])
    return {"rank": module.get_rank(), "groups": groups[:_MAX_GROUPS]}


def _read_entries(core: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return the recorded operations in which a whole group takes part, oldest first; and whether these are all."""
    import json

    dumps = [json.loads(getattr(core, name)()).get("entries", []) for name in _DUMPS if hasattr(core, name)]
    is_complete = all(entries[0]["record_id"] == 0 for entries in dumps if entries)
    return [entry for entries in dumps for entry in entries if not entry["is_p2p"]], is_complete


def _describe_call(entry: dict[str, Any]) -> list[Any]:
    name = entry["profiling_name"].rpartition(":")[2]
    sizes = entry["input_sizes"]
    shape = f"{'/'.join(entry['input_dtypes'])} {sizes[0] if len(sizes) == 1 else sizes or ''}".strip()
    is_done = entry["retired"] or entry["state"] == "completed"
    return [entry["collective_seq_id"], name[:_MAX_CHARACTERS], shape[:_MAX_CHARACTERS], is_done]


def _select_calls(calls: Sequence[list[Any]]) -> list[list[Any]]:
    """Return the first calls after the last one that is done, and the last ones."""
    done_count = max((place for place, call in enumerate(calls, 1) if call[3]), default=0)
    pending = calls[done_count : done_count + _MAX_PENDING]
    rest = calls[max(done_count + _MAX_PENDING, len(calls) - _MAX_LAST) :]
    before = calls[max(0, done_count - _MAX_LAST) : done_count]
    return [*before, *pending, *rest]
