"""Files that are not there, cannot be read, go round in circles, are huge, damaged, hostile, or oddly named."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until
from tests.failure_modes.refusals import nothing_left, refused

pytestmark = pytest.mark.e2e

LOOP = "is a loop of symbolic links, or behind one. Fix the links."
LARGE = "and is copied for every task. Largest entries: data/big.bin ({}). Leave out what the job "
LARGE += "does not need with a .tonyignore file."
MIB = 1024**2


# --- not there, or going round in circles ---------------------------------------------------------------------------


def test_a_source_that_is_a_loop_of_links(lab: Lab) -> None:
    """Be it the source itself or on the way to it, in whatever key."""
    (lab.root / "one").symlink_to("two")
    (lab.root / "two").symlink_to("one")
    for path in ("one", "one/inside"):
        told = f'source = "{path}" (--source): {lab.root}/{path} {LOOP}'
        refused(lab, lab.tony("run", "--source", path, "--", "true"), told)
    done = lab.tony("run", "--source", "", "--file", "one", "--python", "two/bin/python", "--", "true")
    told = f'python = "two/bin/python" (--python): {lab.root}/two/bin/python {LOOP}'
    refused(lab, done, told, f'files[0] = "one" (--file): {lab.root}/one {LOOP}')
    done = lab.submit(lab.root / "one")
    refused(lab, done, f"{lab.root}/one: it cannot be read: Too many levels of symbolic links.")
    done = lab.tony("run", "--", "true", env={"TONY_HOME": str(lab.root / "one")})
    told = f"TONY_HOME is {lab.root}/one, which is a broken link. Set it to a folder of yours."
    assert (2, f"tony: {told}\n") == (done.returncode, done.stderr)
    nothing_left(lab)


def test_a_source_with_outside_links_or_too_deep_folders(lab: Lab) -> None:
    """Files that are left out are named, and so are unreadable ones."""
    source = lab.root / "source"
    source.mkdir()
    (source / "out").symlink_to("/etc")
    place = source
    for _ in range(300):
        place /= "d"
        place.mkdir()
    done = lab.tony("run", "--source", "source", "--", "true")
    shown = f"{'d/' * 25}…{'d/' * 25}"
    refused(
        lab,
        done,
        f"source = {source} (--source): the folder {shown} is nested more than 200 levels deep. Leave it out with "
        ".tonyignore.",
        f"source = {source} (--source): the link out -> /etc leads out of the folder. List its target under `files`, "
        "or leave it out with .tonyignore.",
    )


# --- that cannot be read ----------------------------------------------------------------------------------------------


def closed(path: Path) -> Path:
    """Remove all permissions."""
    path.chmod(0)
    return path


def test_unreadable_files(person: Lab) -> None:
    """All of them at once, by name, with the way out. Nothing was started."""
    for name in ("open.py", "secret.py", "inner/key.pem", "shut/x.py", "data.npz"):
        person.file(name, "x")
    project = person.root / "project"
    for name in ("secret.py", "inner/key.pem", "shut", "data.npz"):
        closed(project / name)
    (project / ".tonyignore").write_text("data.npz\n")
    job = person.job_file('command = "true"\nsource = "."\nfiles = ["data.npz"]\n')
    mend = "Make it readable, or leave it out with .tonyignore."
    done = person.submit(job)
    assert sorted(done.stderr.splitlines()[:-1]) == [  # folders are read in no order
        f"files = {project}/data.npz ({job}:3): it cannot be read (permission denied). Make it readable.",
        f"source = {project} ({job}:2): inner/key.pem cannot be read (permission denied). {mend}",
        f"source = {project} ({job}:2): secret.py cannot be read (permission denied). {mend}",
        f"source = {project} ({job}:2): the folder shut/ cannot be read (Permission denied). {mend}",
    ]
    refused(person, done, *done.stderr.splitlines()[:-1])
    (project / "shut").chmod(0o755)


def test_an_unreadable_job_file(person: Lab) -> None:
    """The job file, an interpreter, a site file: each says which file it is."""
    job = closed(person.job_file('command = "true"\n'))
    for command in ("submit", "validate"):
        refused(person, person.tony(command, job), f"{job}: it cannot be read: Permission denied.")
    closed(person.file("python", "#!/bin/sh\n"))
    done = person.tony("run", "--source", "", "--python", "project/python", "--", "true")
    told = f"python = {person.root}/project/python (--python): it cannot be read (permission denied). Make it readable."
    refused(person, done, told)
    site = person.root / "user" / ".config" / "tony" / "tony.toml"
    site.parent.mkdir(parents=True)
    site.touch()
    closed(site)
    refused(person, person.tony("run", "--source", "", "--", "true"), f"{site}: it cannot be read: Permission denied.")


# --- huge -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def big_lab(lab: Lab) -> Iterator[Lab]:
    """A lab whose home is removed at once: what it holds is large."""
    yield lab
    shutil.rmtree(lab.home / "cache", ignore_errors=True)


def test_a_large_file_in_the_source(big_lab: Lab) -> None:
    """600 MB: a warning names it before it is packed, it is copied whole, and the memory of no process grows with
    it."""
    stage_large(big_lab, 600)


@pytest.mark.long
def test_a_file_of_2_gb_in_the_source(big_lab: Lab) -> None:
    """The same with 2 GB, beyond what 31 bits count."""
    stage_large(big_lab, 2100)


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (signal.SIGINT, 130, "interrupted; nothing was submitted"),
        (signal.SIGTERM, 143, "terminated by SIGTERM; nothing was submitted"),
        (signal.SIGHUP, 129, "terminated by SIGHUP; nothing was submitted"),
    ],
)
def test_interrupted_while_a_large_file_is_packed(big_lab: Lab, number: signal.Signals, code: int, told: str) -> None:
    """Ctrl-C, a signal, a closed terminal: reported, and no partial file is left."""
    packing = start_packing(big_lab)
    packing.send_signal(number)
    out, err = packing.communicate(timeout=60)
    assert (packing.returncode, out, err.split("\n\n")[0].splitlines()[-1]) == (code, "", f"tony: {told}")
    assert "Traceback" not in err
    nothing_left(big_lab)


def test_killed_while_a_large_file_is_packed(big_lab: Lab) -> None:
    """The partial submission is not listed as a job, and the next submission removes it."""
    packing = start_packing(big_lab)
    packing.kill()
    packing.communicate(timeout=60)
    (half,) = big_lab.jobs()
    (part,) = (big_lab.home / "cache").glob(".*.part")
    done = big_lab.tony("list")
    assert (0, f"no jobs in {big_lab.home}/jobs\n") == (done.returncode, done.stdout)
    assert big_lab.tony("status", half).returncode == 2
    os.utime(part, (part.stat().st_atime, part.stat().st_mtime - 3600))  # a minute later it is not young any longer
    assert big_lab.tony("run", "--source", "", "--", "true").returncode == 0
    assert half not in big_lab.jobs()
    assert not part.exists()
    assert [] == list((big_lab.home / "submitting").iterdir())


def start_packing(lab: Lab) -> subprocess.Popen[str]:
    """A command that packs 8 GB, and is in the midst of it."""
    (lab.root / "source").mkdir()
    (lab.root / "source" / "big.bin").touch()
    os.truncate(lab.root / "source" / "big.bin", 8 << 30)
    packing = lab.follow("run", "--source", "source", "--", "true")

    def is_packing() -> bool:
        if packing.poll() is not None:
            raise AssertionError(packing.communicate())
        return any(part.stat().st_size for part in (lab.home / "cache").glob(".*.part"))

    until(is_packing, "something of it is written")
    return packing


def stage_large(lab: Lab, size: int) -> None:
    """Runs a job with a sparse file of so many MB in its source."""
    lab.file("data/readme.txt", "x\n")
    big = lab.root / "project" / "data" / "big.bin"
    big.touch()
    os.truncate(big, size * MIB)
    shown = f"{size}m" if size < 1024 else f"{round(size / 1024, 1):g}g"
    program = ["sh", "-c", "stat -c %s data/big.bin; grep VmHWM /proc/$PPID/status"]
    done, peak = measured(lab, "run", "--source", "project", "--", *program)
    assert done.returncode == 0, done.stderr
    assert [
        f"tony: warning: source is large ({shown}) {LARGE.format(shown)}",
        f"tony: source: {shown} in 2 files",
    ] == done.stderr.splitlines()
    assert f"main:0 | {size * MIB}\n" in done.stdout
    executor = re.search(r"VmHWM:\s*(\d+) kB", done.stdout)
    assert executor
    assert int(executor[1]) * 1024 < 80 * MIB
    assert peak < 120 * MIB
    assert lab.status("last")["exit_code"] == 0


#: Runs a command and writes down the most memory that it had at a time, in KiB.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


def measured(lab: Lab, *words: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """Runs a command to its end; also answers the most memory that it had, in bytes."""
    lab.prefix = (sys.executable, "-S", "-c", MEASURE, str(lab.root / "peak"))
    done = lab.tony(*words)
    lab.prefix = ()
    return done, int((lab.root / "peak").read_text()) * 1024


# --- oddly named ------------------------------------------------------------------------------------------------------


def test_file_names_with_a_colon(lab: Lab) -> None:
    """One colon is an ordinary character, in the names of sources, files, job files and in new names."""
    lab.file("col:on/a:b.txt", "from the source\n")
    lab.file("c:d.txt", "from files\n")
    job = lab.file(
        "job:1.toml",
        """
        command = "cat a:b.txt c:d.txt e:f.txt"
        source = "col:on"
        files = ["c:d.txt", "c:d.txt::e:f.txt"]
        """,
    )
    done = lab.submit(job)
    assert done.returncode == 0, done.stderr
    said = (lab.home / "jobs" / lab.only_job() / "logs" / "main-0.s1.t1.out").read_text()
    assert said == "from the source\nfrom files\nfrom files\n"
    assert lab.status("last")["name"] == "job:1"


def test_file_names_that_look_like_two(lab: Lab) -> None:
    """`a::b` means a file and its new name; a file that is itself called so is told apart."""
    lab.file("a::b", "x")
    lab.file("c#archive", "x")
    job = lab.job_file('command = "true"\nfiles = ["a::b", "c#archive", "a::b::c", "a::../up"]\n')
    folder = job.parent
    inside = "'../up' must be a relative path inside the working directory."
    own = " does not exist; a file with `{}` in its name does, but cannot be used. Rename it."
    refused(
        lab,
        lab.submit(job),
        f'files[2] = "a::b::c" ({job}:2): it has more than one `::`. Write path::name.',
        f'files[3] = "a::../up" ({job}:2): the new name {inside}',
        f'files[0] = "a::b" ({job}:2): {folder}/a{own.format("::")}',
        f'files[1] = "c#archive" ({job}:2): {folder}/c{own.format("#")}',
    )


def test_a_colon_where_path_is_divided(lab: Lab) -> None:
    """An interpreter below such a folder is found all the same; a home that would hide it is refused."""
    for name in ("python", "python3"):
        link = lab.root / "en:v" / "bin" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(sys.executable)
    code = "import sys; print('mine is', sys.executable)"
    for word in ("python", "python3"):
        done = lab.tony("run", "--source", "", "--python", "./en:v", "--", word, "-c", code)
        assert f"mine is {lab.root}/en:v/bin/python" in done.stdout, done.stdout + done.stderr
    home = str(lab.root / "ho:me")
    run = ("run", "--source", "", "--python", sys.executable, "--", "python", "-c", "1")
    done = lab.tony(*run, env={"TONY_HOME": home})
    told = (
        f"python = {sys.executable} (--python): programs could not find it: PATH would contain {home}, whose `:` "
        "separates entries. Set TONY_HOME to a folder without `:`."
    )
    assert (2, told) == (done.returncode, done.stderr.splitlines()[0])
    assert lab.tony("run", "--source", "", "--", "true", env={"TONY_HOME": home}).returncode == 0
