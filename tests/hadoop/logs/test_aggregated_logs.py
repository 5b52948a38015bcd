"""Aggregated logs are found by application, wherever a version or a setting puts them."""

from __future__ import annotations

import pytest

from tests.hadoop.logs.memory_files import GOLDEN, MemoryFiles
from tests.hadoop.logs.test_tfile import NUMBERS, STDOUT, log_files, make
from tony.hadoop.logs.aggregated_logs import AggregatedLogLocation, AggregatedLogs, LogsNotFoundError, find_places
from tony.hadoop.logs.log_files import MalformedLogFileError

_APPLICATION = "application_1795272430499_12345"
_PLACES = (
    AggregatedLogLocation(folder="/app-logs", suffix="logs-tfile"),
    AggregatedLogLocation(folder="/app-logs", suffix="logs"),
)
_NEW = f"/app-logs/alice/bucket-logs-tfile/2345/{_APPLICATION}"
_OLD = f"/app-logs/alice/logs/{_APPLICATION}"


def _golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def _logs(files: dict[str, bytes]) -> AggregatedLogs:
    return AggregatedLogs(MemoryFiles(files), _PLACES)


@pytest.mark.parametrize("folder", [_NEW, _OLD, f"/app-logs/alice/logs-tfile/{_APPLICATION}"])
@pytest.mark.parametrize("name", ["tfile-none", "tfile-gz", "ifile-none", "ifile-gz"])
def test_found_wherever_it_is(folder: str, name: str) -> None:
    """New, older and oldest folders, and both formats whatever the folder is called."""
    logs = _logs({f"{folder}/localhost_40259": _golden(name)})
    found = logs.find(_APPLICATION, "alice")
    assert len(found) == 12
    container = found[0].container
    one = {log.name: log for log in found if log.container == container}
    assert sorted(one) == ["empty", "numbers.log", "prelaunch.err", "prelaunch.out", "stderr", "stdout"]
    assert b"".join(logs.read(one["stdout"])) == STDOUT
    assert b"".join(logs.read(one["numbers.log"], 100)) == NUMBERS[100:]
    assert b"".join(logs.read(one["numbers.log"], 1000)) == b""


def test_rounds_are_one_log() -> None:
    """With rolling aggregation a log's bytes lie in several files; together they are the log."""
    rounds = {f"{_NEW}/host_1_{1000 + n}": make([[("c", log_files({"out": b"%d%d%d" % (n, n, n)}))]]) for n in range(4)}
    logs = _logs(rounds)
    (log,) = logs.find(_APPLICATION, "alice")
    assert log.length == 12
    for offset in range(13):
        assert b"".join(logs.read(log, offset)) == b"000111222333"[offset:]


def test_a_file_that_grew_between_rounds_is_there_once() -> None:
    """Each round brings whole files: the last one holds all, unless it is another file of the same name."""
    contents = [b"a" * 9000, b"a" * 9000, b"a" * 9000 + b"b" * 5000, b"a new file", b"", b"x", b"xyz"]
    rounds = {f"{_NEW}/host_1_{1000 + n}": make([[("c", log_files({"out": data}))]]) for n, data in enumerate(contents)}
    logs = _logs(rounds)
    (log,) = logs.find(_APPLICATION, "alice")
    assert b"".join(logs.read(log)) == b"a" * 9000 + b"b" * 5000 + b"a new file" + b"xyz"
    assert log.length == 14_013


def test_files_that_are_being_written_are_skipped() -> None:
    """Temporary files are left out; of an indexed file that is being appended to only the earlier rounds are read."""
    whole = _golden("ifile-none")
    files = {f"{_NEW}/localhost_40259.tmp": b"", f"{_NEW}/host_1": whole + b"\nmore"}
    with pytest.raises(MalformedLogFileError, match="host_1"):
        _logs(files).find(_APPLICATION, "alice")
    files[f"{_NEW}/host_1-checksum"] = b"\0\0\0\6host_1" + len(whole).to_bytes(8, "big")
    assert len(_logs(files).find(_APPLICATION, "alice")) == 12
    files[f"{_NEW}/host_1-checksum"] = bytes(8)
    with pytest.raises(MalformedLogFileError):
        _logs(files).find(_APPLICATION, "alice")


def test_one_damaged_file_hides_no_other() -> None:
    """What can be read is read."""
    files = {f"{_NEW}/bad_1": b"garbage" * 30, f"{_NEW}/good_1": make([[("c", log_files({"out": b"fine"}))]])}
    (log,) = _logs(files).find(_APPLICATION, "alice")
    assert b"".join(_logs(files).read(log)) == b"fine"


def test_none() -> None:
    """No files: the message says where they were looked for and why there may be none."""
    with pytest.raises(LogsNotFoundError, match=r"yarn\.log-aggregation-enable.*bucket-logs-tfile/2345/application_"):
        _logs({"/app-logs/bob/x": b"", f"{_NEW}/host_1": b""}).find(_APPLICATION, "alice")


def test_places_follow_the_settings() -> None:
    """Folder and suffix, for all formats and for one, with or without a file system's name."""
    default = find_places(lambda key, default: default)
    assert default == (
        AggregatedLogLocation(folder="/tmp/logs", suffix="logs-tfile"),
        AggregatedLogLocation(folder="/tmp/logs", suffix="logs-ifile"),
        AggregatedLogLocation(folder="/tmp/logs", suffix="logs"),
    )
    chosen = {
        "yarn.nodemanager.remote-app-log-dir": "hdfs://ns1/app-logs/",
        "yarn.nodemanager.remote-app-log-dir-suffix": "kept",
        "yarn.log-aggregation.file-formats": "Mine, TFile",
        "yarn.log-aggregation.Mine.remote-app-log-dir": "hdfs:/mine",
        "yarn.log-aggregation.Mine.remote-app-log-dir-suffix": "own",
    }
    assert find_places(lambda key, default: chosen.get(key, default)) == (
        AggregatedLogLocation(folder="/mine", suffix="own"),
        AggregatedLogLocation(folder="/app-logs", suffix="kept-tfile"),
        AggregatedLogLocation(folder="/app-logs", suffix="kept-ifile"),
        AggregatedLogLocation(folder="/app-logs", suffix="kept"),
    )
