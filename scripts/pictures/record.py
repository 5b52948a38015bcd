"""Record the README's animation anew (`make pictures`): a real job in a pseudo terminal, drawn as an SVG by termtosvg.

Commands are typed by the script; what follows them is their own output at their own pace. Names of this machine are
replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from take import PICTURES, ROOT, Desk

REQUIREMENTS = ROOT / "requirements" / "record.txt"
TOOL = ROOT / ".cache" / "record"
COLUMNS, ROWS = 106, 28
LARGEST_BYTES = 300_000
TYPING_SECONDS = 0.04  # for each character of a command
READING_SECONDS = 2.5  # after the output of a command
LONGEST_FRAME_MS = 1500
LOOP_DELAY_MS = 6000
COMMANDS = ("cat job.toml", "tony submit job.toml", "tony status last")
PROMPT = "\x1b[32m$\x1b[0m "
JOB = """\
name = "digits"
source = "."
command = "python train.py steps=240 pace=0.03 keep=$HOME/kept break=worker:1@130 brief=yes"
max_restarts = 2

[roles.chief]
instances = 1
memory = "256m"

[roles.worker]
instances = 2
memory = "256m"
"""


class Recording:
    """Output of a terminal with its time: events of an asciicast."""

    def __init__(self) -> None:
        self.events: list[tuple[float, str]] = []
        self._now = 0.0

    def prompt(self) -> None:
        """Show that the next command can be typed."""
        self._add(0.5, PROMPT)

    def type(self, command: str) -> None:
        """Show a command as if it were typed."""
        for character in command:
            self._add(TYPING_SECONDS, character)
        self._add(0.3, "\r\n")

    def run(self, command: str, desk: Desk) -> None:
        """Run a command in a pseudo terminal of its own, and keep what it prints."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(desk.source)
            os.execvpe("sh", ["sh", "-c", f"exec {command}"], {**desk.env, "TERM": "xterm-256color"})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        started, begun = time.monotonic(), self._now
        while text := _read(terminal):
            self._add(begun + time.monotonic() - started - self._now, text)
        os.close(terminal)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
            raise SystemExit(f"{command} failed:\n{''.join(text for _, text in self.events)}")
        self._now += READING_SECONDS

    def save(self, path: Path, names: list[tuple[str, str]]) -> None:
        """Write an asciicast, with other words for names of this machine."""
        lines = [json.dumps({"version": 2, "width": COLUMNS, "height": ROWS})]
        for moment, text in self.events:
            for name, word in names:
                text = re.sub(name, word, text)
            lines.append(json.dumps([round(moment, 3), "o", text]))
        path.write_text("\n".join(lines) + "\n")

    def _add(self, seconds: float, text: str) -> None:
        self._now += seconds
        self.events.append((self._now, text))


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:  # the program has exited
        return ""


def termtosvg() -> Path:
    """The program, from an environment of its own: it needs an old setuptools."""
    program = TOOL / "bin" / "termtosvg"
    stamp = TOOL / ".complete"
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", TOOL], check=True)
        pip = [TOOL / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        install = ["install", "--quiet", "--no-deps", "--require-hashes", "--requirement", REQUIREMENTS]
        subprocess.run([*pip, *install], check=True)
        stamp.write_text(REQUIREMENTS.read_text())
    return program


def main() -> int:
    program = termtosvg()
    recording = Recording()
    with tempfile.TemporaryDirectory(prefix="tony-") as folder:
        desk = Desk(Path(folder))
        desk.env["TONY_HOME"] = str(desk.folder / "user" / ".tony")
        (desk.source / "job.toml").write_text(JOB)
        recording.prompt()
        for command in COMMANDS:
            recording.type(command)
            recording.run(command, desk)
            recording.prompt()
        cast = Path(folder) / "demo.cast"
        host = re.escape(socket.gethostname())
        recording.save(cast, [(re.escape(str(desk.folder / "user")), "/home/ann"), (rf"\b{host}\b", "desk")])
        target = PICTURES / "demo.svg"
        limits = ["--max-frame-duration", str(LONGEST_FRAME_MS), "--loop-delay", str(LOOP_DELAY_MS)]
        render = [program, "render", cast, target, "--template", "window_frame", *limits]
        done = subprocess.run(render, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(map(str, render))}\n{done.stderr}")
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {size:,} bytes, {recording.events[-1][0]:.0f} s")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{target} is larger than {LARGEST_BYTES:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
