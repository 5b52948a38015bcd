"""Small files of ours that others may have written, and those of a user's folder that we act upon."""

from __future__ import annotations

import json
import os

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tony.schedulers.local.claims import claim_policy
from tony.schedulers.local.claims.claim_policy import Claim
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.containers.container_recovery import read_launch_record
from tony.storage import manifest
from tony.storage.environments.environment_setup import relocate
from tony.storage.manifest import ManifestEntry, ManifestEntryKind
from tony.storage.staging import digest_index
from tony.storage.staging.digest_index import DigestIndex, Stamp
from tony.storage.staging.folder_scan import scan
from tony.storage.staging.ignore_rules import OWN_FILE, IgnoreFileError

_TICKET = "00000000000000000001-1-0a1b2c3d"
_PARTS = b"\n---\n"


def cache_index(data: bytes) -> None:
    """What is remembered of a staged folder: a cache, which can be anything."""
    folder = scratch("index")
    source = folder / "x"
    digest_index.save(folder, source, DigestIndex())
    next(folder.iterdir()).write_bytes(data)
    found = digest_index.load(folder, source)
    digest = found.find_digest("a", _STAMP)
    assert digest is None or isinstance(digest, str)
    digest_index.save(folder, source, found)
    assert digest_index.load(folder, source) == found


def entry_list(data: bytes) -> None:
    place = scratch("manifest") / "list"
    place.write_bytes(data)
    entries = manifest.load(place)
    manifest.save(place, entries)
    assert manifest.load(place) == entries
    for entry in entries:
        assert not entry.path.startswith("/")
        assert ".." not in entry.path.split("/")


def claim(data: bytes) -> None:
    """What another user's job says that it holds of the machine."""
    found = claim_policy.decode(data, _TICKET, "other")
    if found is None:
        return
    mine = Claim(ticket="1", job="j", job_name="n", memory=10, gpus=1)
    decision = claim_policy.decide(mine, [found], Machine(memory=1 << 30, gpus=("0", "1")))
    if isinstance(decision, str):
        assert decision.isprintable()
        assert len(decision) < 2000
    assert claim_policy.decode(claim_policy.encode(found), _TICKET, "other") == found


def remnants(data: bytes) -> None:
    """What a master that died has left for others to end."""
    place = scratch("remains") / "remains"
    place.write_bytes(data)
    found = read_launch_record(place)
    assert all(pid > 0 for pid in found.executors)


def ignored(data: bytes) -> None:
    """Patterns of an ignore file; after a line of its own, names of files that they are for."""
    patterns, _, names = data.partition(_PARTS)
    folder = scratch("source")
    (folder / OWN_FILE).write_bytes(patterns)
    made = {OWN_FILE}
    for name in names.replace(b"\0", b"").split(b"\n")[:8]:
        text = os.fsdecode(name)
        if name and "/" not in text and text not in (".", "..") and len(name) < 200:
            (folder / text).touch()
            made.add(text)
    found = scan(folder, git=True)
    assert {each.path for each in found.found} <= made
    for text in found.refused:
        assert text.isprintable(), ascii(text)
        assert len(text) < 2000
    if found.refused:
        raise IgnoreFileError(found.refused[0])


def environment(data: bytes) -> None:
    """The texts of a packed environment that name the place where it was made."""
    parts = (*data.split(_PARTS), b"", b"")[:3]
    folder = scratch("environment")
    (folder / "bin").mkdir()
    for name, text in zip(("pyvenv.cfg", "bin/activate", "bin/run"), parts, strict=True):
        (folder / name).write_bytes(text)
    relocate(folder)
    once = [(folder / name).read_bytes() for name in ("pyvenv.cfg", "bin/activate", "bin/run")]
    assert sum(map(len, once)) <= 1000 + 200 * len(data)


_STAMP = Stamp(1, 2, 3, 4)
_DIGEST = "0" * 64


def _index_seeds() -> list[bytes]:
    folder = scratch("index")
    filled = DigestIndex(
        files={"a": (_STAMP, _DIGEST)}, tree=_DIGEST, object_digest=_DIGEST, object_size=3, checked=("file",)
    )
    digest_index.save(folder, folder / "x", filled)
    return [next(folder.iterdir()).read_bytes()]


def _manifest_seeds() -> list[bytes]:
    place = scratch("manifest") / "list"
    manifest.save(
        place,
        [
            ManifestEntry(path="d", kind=ManifestEntryKind.FOLDER, mode=0o755),
            ManifestEntry(path="d/x", kind=ManifestEntryKind.FILE, mode=0o644, size=3, mtime=5),
            ManifestEntry(path="l", kind=ManifestEntryKind.LINK, target="d/x"),
        ],
    )
    return [place.read_bytes(), json.dumps([["x" * 3000, "a", 0, 0, 0, ""]]).encode()]


def _claim_seeds() -> list[bytes]:
    waiting = Claim(ticket=_TICKET, job="local-1", job_name="name", memory=1 << 30, gpus=2)
    held = Claim(ticket=_TICKET, job="local-1", job_name="name", memory=1 << 29, gpus=1, devices=("0",))
    return [claim_policy.encode(waiting), claim_policy.encode(held), json.dumps({"ticket": _TICKET}).encode()]


TARGETS = (
    Target(name="cache-index", run=cache_index, errors=(), seeds=_index_seeds, json=True),
    Target(name="manifest", run=entry_list, errors=(ValueError,), seeds=_manifest_seeds, json=True),
    Target(name="claim", run=claim, errors=(), seeds=_claim_seeds, json=True),
    Target(
        name="remains",
        run=remnants,
        errors=(),
        seeds=lambda: [b"executor 12 3456\ngroup /sys/fs/cgroup/tony/x\n", "executor ² ³\n".encode()],
        tokens=(b"executor ", b"group ", "²".encode(), b"9" * 5000),
    ),
    Target(
        name="ignore",
        run=ignored,
        errors=(IgnoreFileError,),
        seeds=lambda: [
            b"*.pyc\n/data/**\n!keep\n[a-z]?x\\ \n**/y\n# c\n" + _PARTS + b"keep\na.pyc\naax\n" + b"x" * 100,
            b"a*b*c*d\n" + _PARTS + b"abcd",
        ],
        tokens=(b"**/", b"/**", b"[!a]", b"[[:alpha:]]", b"\\", b"!", b"*a*a*a*a*a*a*a*a", b"[z-a]", _PARTS),
        longest=1024,
    ),
    Target(
        name="environment",
        run=environment,
        errors=(),
        seeds=lambda: [
            b"home = /usr/bin\ncommand = /usr/bin/python -m venv /old/env\n" + _PARTS + b"VIRTUAL_ENV='/old/env'\n"
            b"export VIRTUAL_ENV=/old/env\n" + _PARTS + b"#!/old/env/bin/python3 -I\nx\n",
            _PARTS + _PARTS + b"#!/bin/sh\n'''exec' \"/o e/bin/python\" \"$0\" \"$@\"\n' '''\nx\n",
        ],
        tokens=(b"VIRTUAL_ENV=", b"command = ", b"home = ", b"#!", _PARTS, b" " * 60, b"/old/env"),
    ),
)
