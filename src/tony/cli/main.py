"""The command line: runs the command, and maps every way it can end to an exit code.

Commands are imported when they are used, so that `tony --help` stays fast.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, cast

import click

import tony
from tony.cli.click_base import CommandGroup, FittingContext
from tony.cli.terminal.output import explain, print_json, say, say_all, warn
from tony.cli.terminal.standard_streams import prepare_output, settle_output
from tony.errors import ExitCode, InterruptedBySignal, TonyError
from tony.jobs.state_dir import find_state_dir
from tony.linux import os_errors
from tony.linux.resource_limits import allow_open_files

#: Group of the help page -> command -> what it does, in the order of the page.
COMMAND_GROUPS = {
    "Run": {
        "init": "Write a small job to begin with.",
        "submit": "Submit a job file and follow the job to its end.",
        "run": "Run a command as a job, without a job file.",
        "rerun": "Submit a job again, with its settings and its files.",
        "notebook-submit": "Run a notebook on the cluster and forward its port to this machine.",
        "validate": "Check a job file without running it.",
        "settings": "List the settings of a job file.",
    },
    "Watch": {
        "attach": "Follow a job to its end, as `tony submit` does.",
        "status": "Show the status of a job and its tasks.",
        "logs": "Show the output of a job's tasks.",
        "top": "Show what a job's tasks use and their progress.",
        "list": "List running and finished jobs (also: ps).",
        "events": "List the events of a job.",
        "timeline": "Draw what each task was doing over time.",
        "metrics": "Show the metrics of a job's tasks.",
        "portal": "Serve web pages of all jobs.",
        "open": "Open a job's web page in a browser.",
    },
    "Diagnose": {
        "why": "Show why a job failed, and what to do.",
        "doctor": "Check what jobs need on this machine and on the cluster.",
        "stacks": "Show stack traces of running tasks.",
        "advise": "Recommend cheaper or safer settings for a job.",
        "compare": "Compare two jobs.",
        "history": "Show the summary of a job and where its files are.",
    },
    "Act": {
        "kill": "Kill a job (also: stop, cancel).",
        "restart": "Restart all tasks of a job.",
        "exec": "Run a program in the container of a running task.",
        "shell": "Open a shell in the container of a running task.",
        "proxy": "Forward a local port to a port of a task.",
        "log-level": "Change the log level of a running job.",
        "pin": "Protect a job's history from `tony purge`.",
    },
    "More": {
        "mini": "Run a small Hadoop cluster or Kubernetes on this machine.",
        "login": "Log in to a portal with a token.",
        "waste": "Report reserved but unused GPU- and GB-hours, by user and week.",
        "purge": "Delete or move the history of old jobs.",
        "trace": "Export a job as an OpenTelemetry trace.",
        "replay": "Replay a job's event log and verify its recorded states.",
        "cluster-submit": "Submit a LinkedIn TonY job (tony.xml) to YARN.",
        "local-submit": "Run a LinkedIn TonY job on a small cluster of its own.",
        "convert": "Convert a LinkedIn TonY job to a job file.",
        "completion": "Print shell code that completes commands and options.",
        "version": "Print the version.",
    },
}
COMMANDS = {name: text for group in COMMAND_GROUPS.values() for name, text in group.items()}
#: Command -> its module below `commands/`, if that has several.
_SHARED_MODULES = {
    **dict.fromkeys(("kill", "restart", "log-level"), "job_requests"),
    **dict.fromkeys(("pin", "purge"), "retention"),
    **dict.fromkeys(("cluster-submit", "local-submit", "notebook-submit"), "legacy_submit"),
}
#: Hidden names of commands that other schedulers use.
ALIASES = {"stop": "kill", "cancel": "kill", "ps": "list"}
#: Names that are not similar to the command that is meant -> that command.
_SUGGESTIONS = {"jobs": "list"}
#: Ends the help of each command for a job.
_JOB_HELP = "JOB is a job's id, its name if no other job has it, a unique part of the id, or `last`."
_EXTRA_TASK = re.compile(r"got unexpected extra argument \(([A-Za-z][\w-]*:\d+)\)")
#: Exit codes of Unix programs for SIGINT and SIGPIPE.
_INTERRUPTED = 130
_BROKEN_PIPE = 141
#: Most open files that a command needs, those of its interpreter included.
_MAX_OPEN_FILES = 16
#: Errors of the machine, not bugs: no space, no permission, too many files...
_MACHINE_ERRORS = {
    errno.EACCES,
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EIO,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
}


class _OutputClosedError(Exception):
    """Carries a BrokenPipeError past click, which would turn it into exit code 1: "the program failed"."""


class Commands(CommandGroup):
    """All commands; imports `tony.cli.commands.<name>` when the command is used."""

    suggestions = _SUGGESTIONS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command, in the order of the help page."""
        return list(COMMANDS)

    def list_known_names(self, ctx: click.Context) -> list[str]:
        """Return the commands and their aliases."""
        return [*COMMANDS, *ALIASES]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return one command."""
        typed, name = name, ALIASES.get(name, name)
        if name not in COMMANDS:
            return None
        others = [f"tony {each}" for each in (name, *ALIASES) if ALIASES.get(each, each) == name and each != typed]
        word = name.replace("-", "_")
        module = import_module(f"tony.cli.commands.{_SHARED_MODULES.get(name, word)}")
        command = cast(click.Command, getattr(module, word if name in _SHARED_MODULES else "command"))
        command.context_class = FittingContext
        command.help = command.help or COMMANDS[name]  # -OO removes docstrings
        notes = [_JOB_HELP] if any(parameter.name == "job" for parameter in command.params) else []
        if others:
            notes.append(f"Also: {', '.join(others)}.")
        if notes:
            command.epilog = "\n\n".join(notes)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups, without loading any."""
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _catch_click_errors():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments up to the command; prints help and version, also for `tony help [COMMAND]`."""
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        with _catch_click_errors():
            return super().parse_args(ctx, args)


@contextlib.contextmanager
def _catch_click_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _OutputClosedError from error
    except InterruptedBySignal as ended:  # which click would turn into the exit code of Ctrl-C
        raise click.exceptions.Exit(128 + ended.number) from None


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(tony.__version__, message="tony %(version)s")
def root() -> None:
    """Run distributed machine-learning jobs on this machine, or on the scheduler you already have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code. Handles every exception."""
    prepare_output()
    allow_open_files(_MAX_OPEN_FILES)
    words = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    code = _run(words, as_json)
    settle_output()
    return code


def _run(words: Sequence[str], as_json: bool) -> int:
    try:
        answer = root.main(words, prog_name="tony", standalone_mode=False)
        sys.stdout.flush()
    except (_OutputClosedError, BrokenPipeError):
        return _BROKEN_PIPE
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as error:
        return _report_error(_explain_usage_error(error), ExitCode.REFUSED, as_json)
    except TonyError as error:
        explain(error)
        limit = _limit(error)
        if limit:
            warn(limit)
        return _report_error(f"{error}: {limit}" if limit else str(error), error.exit_code, as_json)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and _is_cwd_removed():
            message = "the current folder has been removed; change to another one"
            warn(message)
            return _report_error(message, ExitCode.REFUSED, as_json)
        if error.errno not in _MACHINE_ERRORS:
            return _report_bug(error)
        warn(": ".join(filter(None, (error.filename, error.strerror, _limit(error)))))
        return ExitCode.INFRASTRUCTURE
    except Exception as error:  # the outermost loop of the program
        limit = _limit(error)
        if not limit:
            return _report_bug(error)
        warn(f"{type(error).__name__}: {error}: {limit}")
        return ExitCode.INFRASTRUCTURE
    return answer if isinstance(answer, int) else ExitCode.SUCCEEDED


def _explain_usage_error(error: click.ClickException) -> str:
    """Print an error of click in the form of all others, and where to read on; return its message."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say_all(error.format_message().splitlines(), to=sys.stderr)
        return "no command given"
    text = " ".join(error.format_message().split())
    message = text[:1].lower() + (text[1:] if ". " in text else text[1:].removesuffix("."))
    warn(message)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context:
        say(context.get_usage(), to=sys.stderr)
        for hint in _find_task_hints(message, context):
            say(hint, to=sys.stderr)
        say(f"Help: {context.command_path} --help", to=sys.stderr)
    return message


def _find_task_hints(message: str, context: click.Context) -> Iterator[str]:
    """Yield where a task is shown, if a command that takes only a job was given one as well."""
    task = _EXTRA_TASK.fullmatch(message)
    if task and "job" in context.params:
        job = context.params["job"]
        yield f"All tasks: tony status {job}. Output of {task[1]}: tony logs {job} {task[1]}"


def _report_error(message: str, code: ExitCode, as_json: bool) -> ExitCode:
    """With --json, print the error as JSON as well; return the exit code."""
    if as_json:
        with contextlib.suppress(OSError, ValueError):
            print_json({"error": {"message": message, "exit_code": int(code)}})
            sys.stdout.flush()
    return code


def _limit(error: BaseException) -> str:
    """Return the resource limit that caused an error, and what a command needs; empty if none did."""
    limit = os_errors.explain(error)
    if limit in str(error):
        return ""
    return (
        f"{limit}; a command of tony needs up to {_MAX_OPEN_FILES}"
        if limit == os_errors.describe_open_file_limit()
        else limit
    )


def _is_cwd_removed() -> bool:
    """Return True if the current folder has been removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _report_bug(error: BaseException) -> int:
    import traceback  # late: only a bug needs it

    text = "".join(traceback.format_exception(error))
    warn(f"internal error, a bug in tony: {type(error).__name__}: {error}")
    try:
        home = find_state_dir(os.environ).path
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = home / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, TonyError):
        print(text, file=sys.stderr)
    else:
        warn(f"please report the traceback in {path}")
    return ExitCode.BUG
