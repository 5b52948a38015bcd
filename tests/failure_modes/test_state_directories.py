"""State directories that are full, closed, from the future, torn, remote; and jobs with unexpected names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until
from tests.failure_modes.refusals import nothing_left, running

pytestmark = pytest.mark.e2e

MIB = 1024**2
WRITABLE = "Set TONY_HOME to a folder that you may write."


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Lab]:
    """A user whose home lies on a disk of 4 MB."""
    disk = lab.root / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    options = ("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk))
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    lab.home = disk / "home"
    lab.env["TONY_HOME"] = str(lab.home)
    try:
        yield lab
        lab.close()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(lab: Lab) -> Path:
    """Fill the disk of a lab with a file of another user."""
    path = lab.root / "disk" / "other-user"
    with path.open("ab") as file:
        try:
            while True:
                os.write(file.fileno(), bytes(4096))
        except OSError:
            return path


def test_a_full_disk_while_staging(small_disk: Lab) -> None:
    """What is known not to fit is refused with the numbers before anything is written; nothing is left of it."""
    small_disk.file("noise", "").write_bytes(os.urandom(6 * MIB))
    project = small_disk.root / "project"
    cache = small_disk.home / "cache"
    done = small_disk.tony("run", "--", "true", cwd=project)
    told = (
        f"tony: cannot stage project: not enough disk space in {cache}: 6m needed, 4m free. Free some space there, "
        "or set TONY_HOME to a folder on a larger disk.\n"
    )
    assert (3, told) == (done.returncode, done.stderr)
    nothing_left(small_disk)
    filler = fill(small_disk)
    (project / "noise").write_text("little\n")
    done = small_disk.tony("run", "--", "true", cwd=project)
    assert done.returncode == 3
    assert "not enough disk space" in done.stderr or "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    nothing_left(small_disk)
    filler.unlink()
    assert small_disk.tony("run", "--", "cat", "noise", cwd=project).returncode == 0


def test_a_full_disk_while_a_tasks_folder_is_filled(small_disk: Lab) -> None:
    """The source fits when it is staged, and not once more for a task: the job fails, and names the full disk.

    The files of a task or the event log may be the first that finds no room.
    """
    small_disk.file("noise", "").write_bytes(os.urandom(MIB + MIB // 2))
    done = small_disk.tony("run", "-n", "2", "--", "true", cwd=small_disk.root / "project")
    assert done.returncode == 3, done.stderr
    status = small_disk.status("last")
    assert status["state"] == "failed"
    assert f"not enough disk space in {small_disk.home}/" in status["failure"]["reason"]
    assert f"not enough disk space in {small_disk.home}/" in done.stderr
    small_disk.wait_removed(small_disk.only_job(), 30)


def test_a_full_disk_while_logging(small_disk: Lab) -> None:
    """The program is not disturbed, its code counts, what was lost of its output is told in bytes."""
    command = 'command = "head -c 20000000 /dev/zero; echo last words >&2; exit 3"\n[roles.worker]\n'
    job = small_disk.detach(small_disk.job_file(command))
    status = small_disk.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["exit_code"]) == ("failed", 1, 3)
    note = status["tasks"][0]["note"]
    assert note.startswith("exit code 3; ")
    assert note.endswith(" bytes of its output were lost: No space left on device")
    lost = int(note.split()[3])
    kept = (Path(status["folder"]) / "logs" / "worker-0.s1.t1.out").stat().st_size
    assert 20_000_000 <= lost + kept <= 20_000_011
    assert "last words" in status["failure"]["tail"]
    small_disk.wait_removed(job, 30)


def test_a_full_disk_under_the_event_log(small_disk: Lab) -> None:
    """What cannot be recorded is not done: programs are stopped, the verdict says which file had no room."""
    text = f'command = "until test -e {small_disk.root}/gate; do sleep 0.05; done; exit 3"\nstop_grace = "1s"\n'
    job = small_disk.detach(small_disk.job_file(f'{text}[roles.worker]\ninstances = 12\nmemory = "64m"\n'))
    until(lambda: all(task["pid"] for task in small_disk.status(job)["tasks"]), "all run")
    fill(small_disk)
    (small_disk.root / "gate").touch()
    status = small_disk.wait(job)
    log = small_disk.home / "jobs" / job / "events.1.jsonl"
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 3, "storage")
    reason = f"cannot write the event log {log}: not enough disk space in {log.parent}: more space needed, "
    assert status["failure"]["reason"].startswith(reason)
    small_disk.wait_removed(job, 30)
    done = small_disk.tony("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert small_disk.tony("replay", job).returncode == 0  # whatever is torn is its last line


# --- a home that cannot be written ------------------------------------------------------------------------------------


def test_a_read_only_home(person: Lab) -> None:
    """Nothing can be submitted, which is told with the way out; everything there can still be looked at."""
    assert person.tony("run", "--source", "", "--", "echo", "hello").returncode == 0
    job = person.only_job()
    folders = [person.home, person.home / "jobs", person.home / "cache", person.home / "jobs" / job]
    (person.home / "index.jsonl").unlink(missing_ok=True)
    for folder in folders:
        folder.chmod(0o500)
    done = person.tony("run", "--source", "", "--", "true")
    assert (3, f"tony: cannot write {person.home}/jobs. {WRITABLE}\n") == (done.returncode, done.stderr)
    for words in (("list",), ("status", job), ("logs", job), ("events", job), ("history", job), ("replay", job)):
        done = person.tony(*words)
        assert (0, "") == (done.returncode, done.stderr), words
    done = person.tony("kill", job)
    assert done.returncode == 0
    assert "has already ended" in done.stdout
    assert [job] == person.jobs()
    for folder in folders:
        folder.chmod(0o700)


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_second_job_with_the_same_name(lab: Lab) -> None:
    """Both run, side by side; only their ids tell them apart, and nothing asks for one by its name."""
    gate = lab.root / "gate"
    job = lab.job_file(f'name = "digits"\ncommand = "until test -e {gate}; do sleep 0.05; done; echo {{job_id}}"\n')
    ids = [lab.detach(job), lab.detach(job)]
    assert len(set(ids)) == 2
    for each in ids:
        lab.wait(each, "running")
    listed = json.loads(lab.tony("list", "--name", "digits", "--state", "running", "--json").stdout)
    assert sorted(ids) == sorted(entry["job"] for entry in listed)
    gate.touch()
    for each in ids:
        assert lab.wait(each)["name"] == "digits"
        assert (lab.home / "jobs" / each / "logs" / "main-0.s1.t1.out").read_text() == f"{each}\n"
    done = lab.tony("status", "digits")
    assert (done.returncode, done.stdout) == (2, "")
    assert "2 jobs have the name 'digits'" in done.stderr
    assert all(each in done.stderr for each in ids)


#: Printable, and trouble wherever a name is taken for a path, a pattern, markup, an option, code or a column's width.
NAMES = [
    "..", "../../escape", "/etc/passwd", "--json", "last", "[bold red]x[/bold red]", "漢" * 200, "xy" * 100,
    "{job_id} {0} %s $(touch pwned) `id` ; ' \" \\ <b>&amp; # a = 1", r"\x1b[31m \u202e *",
    "two  blanks\u00a0\u3000e\u0301\u0302\u0303 שלום 123 مرحبا", "👩\u200d👩\u200d👧 🏴\U000e0067\U000e0062\U000e007f",
]  # fmt: skip


def test_job_names_of_any_printable_characters(lab: Lab) -> None:
    """Accepted, shown as they are by every command, and in no file's name."""
    for name in NAMES:
        done = lab.tony("run", "--source", "", f"--name={name}", "--", "true")
        assert done.returncode == 0, (name, done.stderr)
        assert f"({name}) succeeded" in done.stdout
    ids = {entry["name"]: entry["job"] for entry in json.loads(lab.tony("list", "--json").stdout)}
    assert set(NAMES) == set(ids)
    page = lab.tony("list").stdout
    for name in NAMES:
        assert f"  {name} " in page
        assert name in lab.tony("history", ids[name]).stdout
    for pattern, found in (("[*", 1), ("[a-z]*", 0), ("xy*", 1), ("*漢*", 1), ("..*", 2)):
        listed = json.loads(lab.tony("list", "--name", pattern, "--json").stdout)
        assert len(listed) == found, pattern
    (lab.home / "last").unlink()  # ours
    assert [] == [p for p in lab.root.rglob("*") if p.name in NAMES or "escape" in p.name or "pwned" in p.name]
    assert sorted(ids.values()) == sorted(path.name for path in (lab.home / "jobs").iterdir())
    assert [] == running(lab)
    shutil.rmtree(lab.home)  # looking at each of them once more would take long


# --- records from the future, torn ones, none at all ------------------------------------------------------------------


def two_jobs(lab: Lab) -> tuple[str, str]:
    """A job that failed with last words, and a later one that succeeded."""
    assert lab.tony("run", "--source", "", "--", "sh", "-c", "echo last words; exit 3").returncode == 1
    first = lab.only_job()
    assert lab.tony("run", "--source", "", "--", "true").returncode == 0
    (second,) = {*lab.jobs()} - {first}
    return first, second


def rewrite(path: Path, **changes: object) -> None:
    """Changes top-level values of a JSON file; of a log, of its first line."""
    first, newline, rest = path.read_text().partition("\n")
    path.write_text(json.dumps({**json.loads(first), **changes}) + newline + rest)


def test_a_history_folder_from_a_newer_version(lab: Lab) -> None:
    """It is reported with the version that wrote it, as refused input and not as a bug; it hides no other job, and
    stays as it is."""
    old, new = two_jobs(lab)
    record = lab.home / "jobs" / new / "job.json"
    rewrite(record, version=99, tony_version="7.0", something_new={"a": [1]})
    (lab.home / "index.jsonl").unlink()
    before = {path: path.read_bytes() for path in record.parent.rglob("*") if path.is_file()}
    told = f"{record} has version 99, written by tony 7.0; this tony reads up to 1. Use a newer tony to read this job."
    for words in (("logs", new), ("events", new), ("replay", new), ("logs", "last")):
        done = lab.tony(*words)
        assert (2, "", f"tony: {told}\n") == (done.returncode, done.stdout, done.stderr), words
    done = lab.tony("logs", new, "--json")
    assert json.loads(done.stdout) == {"error": {"message": told, "exit_code": 2}}
    done = lab.tony("list")
    assert (0, f"tony: {new}: {told}\n") == (done.returncode, done.stderr)
    assert old in done.stdout
    assert before == {path: path.read_bytes() for path in before}


def test_a_torn_event_log_without_a_summary(lab: Lab) -> None:
    """As after a crash of the machine: the verdict is found from what was recorded before."""
    job, _ = two_jobs(lab)
    folder = lab.home / "jobs" / job
    (folder / "summary.json").unlink()
    (lab.home / "index.jsonl").unlink()
    os.truncate(folder / "events.1.jsonl", (folder / "events.1.jsonl").stat().st_size - 20)
    status = lab.status(job)
    assert (status["state"], status["exit_code"], status["failure"]["exit_code"]) == ("failed", 1, 3)
    assert (folder / "summary.json").exists()
    assert job in lab.tony("list", "--state", "failed").stdout


# --- far away ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", ["auto", "always"])
def test_a_path_too_long_for_a_unix_socket(lab: Lab, tls: str) -> None:
    """The kernel takes 107 bytes. A home of 400: jobs run, are watched, told to end, and leave no socket anywhere."""
    lab.home = lab.root / ("p" * 200) / ("q" * 200)
    lab.env["TONY_HOME"] = str(lab.home)
    socket = lab.home / "jobs" / "local-20260101-000000-000000" / "am.sock"
    assert len(bytes(socket)) > 400
    text = f'command = "echo up; sleep 3600"\ntls = "{tls}"\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
    job = lab.detach(lab.job_file(text))
    lab.wait_output(job, "worker:1", "up")
    assert job in lab.tony("list", "--state", "running").stdout
    follower = lab.follow("logs", "-f", job)
    assert lab.tony("kill", job).returncode == 0
    assert lab.wait(job)["state"] == "killed"
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, err.count("\n"), f"job {job}" in err) == (0, 1, True), err
    assert "worker:0 | up\n" in out
    lab.wait_removed(job, 30)
    until(lambda: not running(lab), "nothing of it runs")
    assert [] == [path for path in lab.root.rglob("*") if path.is_socket()]
