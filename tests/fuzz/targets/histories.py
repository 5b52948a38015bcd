"""What histories hold that others have written: LinkedIn TonY's event files and settings, records in a store."""

from __future__ import annotations

import json

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tests.fuzz.values import plain_of
from tests.portal import legacy_histories
from tests.support.timelines import timeline
from tony.config.legacy.finished_job import job_of, read_final
from tony.errors import RecordError
from tony.history.event_log import LogEntry
from tony.model.codec import to_plain
from tony.model.job_query import Query, from_words, to_words
from tony.model.job_report import JobReport
from tony.model.submission_record import JobRecord
from tony.portal.histories import avro, jhist_reader, record_reader
from tony.portal.histories.history_layouts import list_places
from tony.portal.job_index.index_schema import build_expression, build_searched_text
from tony.storage.stores.local_store import LocalStore

_PARTS = b"\n---\n"
_JOB = "local-20260101-000000-0a1b2c"


def avro_file(data: bytes) -> None:
    for each in avro.read_records(data):
        repr(each)


def original_record(data: bytes) -> None:
    """An event file and settings: whatever they say becomes a job that can be shown, or is damaged."""
    events, _, settings = data.partition(_PARTS)
    folder = scratch("history") / legacy_histories.APP
    folder.mkdir()
    (folder / legacy_histories.ended_name(status="FAILED")).write_bytes(events)
    (folder / "tony-final.xml").write_bytes(settings)
    store = LocalStore(folder.parent)
    found = jhist_reader.read(store, legacy_histories.APP, store.list(legacy_histories.APP))
    json.dumps(to_plain(found.report), allow_nan=False)
    json.dumps(to_plain(found.record), allow_nan=False)
    line = timeline(found.record, found.entries)
    assert all(isinstance(entry, LogEntry) for entry in found.entries)
    assert all(span.seconds >= 0 for span in line.spans)


def final_settings(data: bytes) -> None:
    spec, sources = job_of(read_final(data, "tony-final.xml"))
    json.dumps(to_plain(spec), allow_nan=False)
    assert all(place.startswith("tony-final.xml:") for place in sources.values())
    assert sum(role.instances for role in spec.roles.values()) <= 100_000


def stored_record(data: bytes) -> None:
    """A record of ours in a store: its head can be searched, or it is damaged."""
    job, _, rest = data.partition(_PARTS)
    summary, _, events = rest.partition(_PARTS)
    folder = scratch("store") / _JOB
    folder.mkdir()
    for name, content in (("job.json", job), ("summary.json", summary), ("events.1.jsonl", events)):
        if content:
            (folder / name).write_bytes(content)
    store = LocalStore(folder.parent)
    (place,) = list_places(store, "")
    entry = record_reader.read(store, place)
    if entry is not None:
        assert isinstance(build_searched_text(entry.head), str)
        assert entry.head.damaged.isprintable(), ascii(entry.head.damaged[:200])
        assert len(entry.head.damaged) < 3000


def address(data: bytes) -> None:
    """What stands in an address, one name and value a line: a query, which can be written as one again."""
    lines = data.decode("utf-8", "replace").splitlines()
    words = dict(line.split("=", 1) for line in lines if "=" in line)
    query = from_words(words)
    assert from_words(to_words(query)) == query
    assert isinstance(build_expression(query.text, []), str)


def _record_seeds() -> list[bytes]:
    made, report = json.dumps(plain_of(JobRecord)).encode(), json.dumps(plain_of(JobReport)).encode()
    return [made + _PARTS + report + _PARTS + b'{"event":"started"}\n', made, b"{}" + _PARTS + b"[]"]


def _address_seeds() -> list[bytes]:
    asked = {**to_words(Query(text="a b", state="failed", user="ann", most=5)), "since": "2026-01-31", "sort": "name"}
    return ["\n".join(f"{name}={value}" for name, value in asked.items()).encode(), b"until=2026-01-31T18:00+01:00"]


_AVRO = (
    legacy_histories.container(legacy_histories.whole()),
    legacy_histories.container(legacy_histories.failing(), "deflate"),
)
_TYPES = tuple(f'"{word}"'.encode() for word in ("type", "record", "fields", "name", "items", "array", "map", "enum"))

TARGETS = (
    Target(
        name="avro",
        run=avro_file,
        errors=(RecordError,),
        seeds=lambda: list(_AVRO),
        tokens=_TYPES,
        memory=300 << 20,
        seconds=20.0,
    ),
    Target(
        name="original-record",
        run=original_record,
        errors=(RecordError,),
        seeds=lambda: [each + _PARTS + legacy_histories.SETTINGS.encode() for each in _AVRO],
        tokens=_TYPES,
        memory=300 << 20,
        seconds=20.0,
    ),
    Target(
        name="final-settings",
        run=final_settings,
        errors=(RecordError,),
        seeds=lambda: [legacy_histories.SETTINGS.encode()],
        tokens=(b"<property>", b"<name>", b"<value>", b"tony.worker.instances", b"<!ENTITY", b"<xi:include"),
    ),
    Target(name="stored-record", run=stored_record, errors=(), seeds=_record_seeds, json=True, memory=16 << 20),
    Target(name="address", run=address, errors=(ValueError,), seeds=_address_seeds),
)
