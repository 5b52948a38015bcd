"""Records of LinkedIn TonY, as it wrote them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

APP = "application_1528151234567_0007"
BEGAN, ENDED = 1_528_160_000_000, 1_528_163_600_000
_TEXT_OR_NULL = ["null", "string"]
_METRIC = {
    "type": "record",
    "name": "Metric",
    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": "double"}],
}
#: As in LinkedIn TonY's `Event.avsc` and what it refers to.
SCHEMA: dict[str, Any] = {
    "namespace": "com.linkedin.tony.events",
    "type": "record",
    "name": "Event",
    "fields": [
        {
            "name": "type",
            "type": {
                "type": "enum",
                "name": "EventType",
                "symbols": ["APPLICATION_INITED", "APPLICATION_FINISHED", "TASK_STARTED", "TASK_FINISHED"],
            },
        },
        {
            "name": "event",
            "type": [
                {
                    "type": "record",
                    "name": "ApplicationInited",
                    "fields": [
                        {"name": "applicationId", "type": "string"},
                        {"name": "numTasks", "type": "int"},
                        {"name": "host", "type": "string"},
                        {"name": "containerID", "type": _TEXT_OR_NULL, "default": None},
                    ],
                },
                {
                    "type": "record",
                    "name": "ApplicationFinished",
                    "fields": [
                        {"name": "applicationId", "type": "string"},
                        {"name": "finishedTasks", "type": "int"},
                        {"name": "failedTasks", "type": "int"},
                        {"name": "metrics", "type": {"type": "array", "items": _METRIC}},
                    ],
                },
                {
                    "type": "record",
                    "name": "TaskStarted",
                    "fields": [
                        {"name": "taskType", "type": "string"},
                        {"name": "taskIndex", "type": "int"},
                        {"name": "host", "type": "string"},
                        {"name": "containerID", "type": _TEXT_OR_NULL, "default": None},
                    ],
                },
                {
                    "type": "record",
                    "name": "TaskFinished",
                    "fields": [
                        {"name": "taskType", "type": "string"},
                        {"name": "taskIndex", "type": "int"},
                        {"name": "status", "type": "string"},
                        {"name": "metrics", "type": {"type": "array", "items": "Metric"}},
                        {"name": "containerDiagnostic", "type": _TEXT_OR_NULL, "default": None},
                    ],
                },
            ],
        },
        {"name": "timestamp", "type": "long"},
    ],
}
_KINDS = ("APPLICATION_INITED", "APPLICATION_FINISHED", "TASK_STARTED", "TASK_FINISHED")
_SYNC = bytes(range(16))


def long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*parts, number))


def text(value: str) -> bytes:
    data = value.encode()
    return long(len(data)) + data


def maybe(value: str | None) -> bytes:
    return long(0) if value is None else long(1) + text(value)


def metrics(values: Mapping[str, float]) -> bytes:
    items = b"".join(text(name) + struct.pack("<d", value) for name, value in values.items())
    return (long(len(values)) + items if values else b"") + long(0)


def event(kind: str, body: bytes, at: int) -> bytes:
    return long(_KINDS.index(kind)) + long(_KINDS.index(kind)) + body + long(at)


def inited(at: int = BEGAN, tasks: int = 2, host: str = "am.example.com") -> bytes:
    return event("APPLICATION_INITED", text(APP) + long(tasks) + text(host) + maybe("container_1_1_01_000001"), at)


def started(role: str, index: int, at: int, host: str = "node1") -> bytes:
    body = text(role) + long(index) + text(host) + maybe(f"container_1_1_01_{len(role) * 100 + index:06d}")
    return event("TASK_STARTED", body, at)


def finished(role: str, index: int, at: int, status: str = "SUCCEEDED", said: str | None = "NA") -> bytes:
    body = text(role) + long(index) + text(status) + metrics({"MAX_MEMORY_BYTES": 5e8}) + maybe(said)
    return event("TASK_FINISHED", body, at)


def over(at: int = ENDED, failed: int = 0) -> bytes:
    return event("APPLICATION_FINISHED", text(APP) + long(2) + long(failed) + metrics({}), at)


def container(events: Sequence[bytes], codec: str = "null", per_block: int = 3) -> bytes:
    meta = {"avro.schema": json.dumps(SCHEMA), "avro.codec": codec}
    parts = [b"Obj\x01", long(len(meta))]
    parts += [text(key) + text(value) for key, value in meta.items()]
    parts += [long(0), _SYNC]
    for start in range(0, len(events), per_block):
        some = events[start : start + per_block]
        data = b"".join(some)
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-15)
            data = packer.compress(data) + packer.flush()
        parts += [long(len(some)), long(len(data)), data, _SYNC]
    return b"".join(parts)


SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration>
  <property><name>tony.application.name</name><value>ctr &lt;b&gt;model</value><source>tony.xml</source></property>
  <property><name>tony.application.framework</name><value>tensorflow</value></property>
  <property><name>tony.application.tags</name><value>ads, nightly</value></property>
  <property><name>tony.yarn.queue</name><value>ml</value></property>
  <property><name>tony.worker.instances</name><value>2</value></property>
  <property><name>tony.worker.memory</name><value>4g</value></property>
  <property><name>tony.worker.gpus</name><value>1</value></property>
  <property><name>tony.ps.instances</name><value>1</value></property>
  <property><name>tony.secret.key</name><value>hunter2</value></property>
  <property><name>fs.defaultFS</name><value>hdfs://nn</value></property>
</configuration>
"""


def whole() -> list[bytes]:
    """What a job of two workers and a ps that succeeded has left."""
    s = 1000
    return [
        inited(),
        started("ps", 0, BEGAN + 1 * s),
        started("worker", 0, BEGAN + 2 * s),
        started("worker", 1, BEGAN + 3 * s),
        finished("worker", 0, BEGAN + 1800 * s),
        finished("worker", 1, BEGAN + 3599 * s),
        finished("ps", 0, ENDED, "KILLED"),
        over(),
    ]


def failing() -> list[bytes]:
    s = 1000
    return [
        inited(),
        started("worker", 0, BEGAN + 2 * s),
        started("worker", 1, BEGAN + 2 * s),
        finished("worker", 1, BEGAN + 60 * s, "FAILED", "Traceback\nValueError: no such column"),
        over(failed=1),
    ]


def ended_name(user: str = "ann", status: str = "SUCCEEDED", app: str = APP) -> str:
    """What the file of a job that has ended is called."""
    return f"{app}-{BEGAN}-{ENDED}-{user}-{status}.jhist"


def lay_down(folder: Path, events: Sequence[bytes], name: str | None = None, settings: str | None = SETTINGS) -> Path:
    folder.mkdir(parents=True)
    (folder / (name or ended_name())).write_bytes(container(events))
    if settings is not None:
        (folder / "tony-final.xml").write_text(settings)
    return folder
