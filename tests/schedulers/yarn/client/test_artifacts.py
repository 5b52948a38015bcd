"""What a job needs in the cluster's file system."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import DATA, SOURCE, record
from tony.errors import ConfigError
from tony.model.staged_files import Placement, StagedItem, StagedJob, StagedRole
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping import python_archive
from tony.schedulers.yarn.client import artifacts as module
from tony.schedulers.yarn.client.artifacts import build_artifacts
from tony.schedulers.yarn.launch_payload import INTERPRETER, PLUG_IN, RUNTIME
from tony.schedulers.yarn.settings import YarnSettings
from tony.storage.cache.object_cache import Cache, Stored

OURS, PYTHON, ADAPTER = (Stored(digest=letter * 64, size=number) for number, letter in enumerate("cde", 100))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setattr(module, "store_runtime", lambda _: OURS)
    monkeypatch.setattr(module, "store_pages", lambda _: None)
    monkeypatch.setattr(python_archive, "store_interpreter", lambda *_: PYTHON)
    return Cache(tmp_path)


def test_plain(cache: Cache) -> None:
    """tony's own files, which all users may share, and each staged object once, readable by its owner only."""
    needs = build_artifacts(record(), YarnSettings(python="/usr/bin/python3"), cache)
    assert [(each.name, each.size, each.public, each.path) for each in needs.uploads] == [
        ("c" * 64 + ".zip", 100, True, cache.find_object("c" * 64)),
        (SOURCE.digest, 1234, False, cache.find_object(SOURCE.digest)),
        (DATA.digest, 99, False, cache.find_object(DATA.digest)),
    ]
    assert (list(needs.archives), needs.pages) == ([RUNTIME], None)
    assert list(needs.objects) == [SOURCE.digest, DATA.digest]


def test_everything(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an interpreter and a plug-in; their names end as nodes want it for what they unpack."""
    monkeypatch.setattr(module, "store_plug_in", lambda *_: ADAPTER)
    needs = build_artifacts(record(), YarnSettings(python="own"), cache)
    assert [each.name for each in needs.uploads[:3]] == ["c" * 64 + ".zip", "d" * 64 + ".tar.gz", "e" * 64 + ".zip"]
    assert list(needs.archives) == [RUNTIME, INTERPRETER, PLUG_IN]
    assert [each.public for each in needs.uploads] == [True, False, False, False, False]


def test_an_environment_that_runs_our_programs(cache: Cache) -> None:
    """Each role's container has to bring one that a shell can unpack."""
    packed = StagedItem(digest="f" * 64, size=1, name="env", placement=Placement.PYTHON, suffix=".tar.gz")
    settings = YarnSettings(python="environment")

    def job(*items: StagedItem) -> JobRecord:
        roles = record().spec.effective_roles
        return record(staged=StagedJob(roles={name: StagedRole(items=items) for name in roles}))

    assert build_artifacts(job(packed), settings, cache).objects.keys() == {packed.digest}
    for items in ((), (replace(packed, suffix=".zip"),)):
        with pytest.raises(ConfigError, match=r"has no packed environment: set `python` to an archive of it, \.tar"):
            build_artifacts(job(*items), settings, cache)
