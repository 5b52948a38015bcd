"""What programs of any kind print before they end."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind

#: Name of the rule for a line that no other rule matches.
LAST_LINE = "last-line"
#: Name of the rule for the end of a program by a signal of its own.
CRASH = "segmentation-fault"

RULES = (
    Rule(
        name="usage",
        pattern=r": error: (unrecognized arguments|the following arguments are required|argument \S+|invalid choice|"
        r"ambiguous option|one of the arguments)|unrecognized option|unknown (command line )?flag|"
        r"^(Error: )?(No such option:|Missing (option|argument|parameter) '|Invalid value for '|"
        r"Got unexpected extra argument)|"
        r"FATAL Flags parsing error",
        kind=FailureKind.USER_CODE,
        advice="correct the arguments of the command",
        source="cpython: Lib/argparse.py; click: src/click/exceptions.py; glibc: posix/getopt.c; absl-py: absl/app.py",
        examples=(
            "train.py: error: unrecognized arguments: --lerning-rate 1",
            "Error: No such option: --lerning-rate",
        ),
        traps=("usage: train.py [--lr LR]",),
    ),
    Rule(
        name="hydra",
        pattern=r"^Could not (override|append to config\.?) '|^Could not delete from config|"
        r"^In '.*': Could not (find|load) '|"
        r"^Cannot find primary config '|^mismatched input .* expecting|^token recognition error at: '",
        kind=FailureKind.USER_CODE,
        advice="correct the arguments of the command, or the configuration",
        source="hydra: hydra/_internal/config_loader_impl.py, hydra/core/override_parser",
        examples=("Could not override 'optimizer.lrr'.", "In 'train': Could not find 'model/bert3'"),
        traps=("Could not override the cache, using the old one",),
    ),
    Rule(
        name="java-memory",
        pattern=r"java\.lang\.OutOfMemoryError|There is insufficient memory for the Java Runtime Environment",
        kind=FailureKind.MEMORY,
        advice="give the JVM a larger heap, and the role more memory",
        source="JDK: hotspot/share/utilities/debug.cpp",
        examples=(
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
            "# There is insufficient memory for the Java Runtime Environment to continue.",
        ),
        traps=("heap: 512 MB",),
    ),
    Rule(
        name="java-file",
        pattern=r"^(Exception in thread \"[^\"]*\" |Caused by: )java\.(io\.FileNotFound|nio\.file\.NoSuchFile)Exc",
        kind=FailureKind.USER_DATA,
        advice="check the path: relative ones start in the job's work folder, absolute ones must be on every node",
        source="JDK: java.io, java.nio.file",
        examples=("Caused by: java.io.FileNotFoundException: /data/train.csv (No such file or directory)",),
        traps=("WARN skipping: java.io.FileNotFoundException: /data/a.csv",),
    ),
    Rule(
        name="r-file",
        pattern=r"^  cannot open (compressed )?file '.*', |^  cannot open file '.*': ",
        kind=FailureKind.USER_DATA,
        advice="check the path: relative ones start in the job's work folder, absolute ones must be on every node",
        source="R: src/main/connections.c",
        examples=("  cannot open file 'train.csv': No such file or directory",),
        traps=("cannot open file 'cache.csv': building it",),
    ),
    Rule(
        name="java-code",
        pattern=r"^(Exception in thread \"[^\"]*\" |Caused by: )java\.(lang\.(NullPointer|ClassCast|"
        r"ArrayIndexOutOfBounds|StringIndexOutOfBounds|IllegalArgument|Arithmetic|NumberFormat|ClassNotFound|"
        r"UnsupportedOperation)Exception|"
        r"lang\.NoSuch(Method|Field)Error|lang\.NoClassDefFoundError|util\.NoSuchElementException)\b",
        kind=FailureKind.USER_CODE,
        source="JDK: java.lang",
        examples=('Exception in thread "main" java.lang.NullPointerException',),
        traps=("WARN ignored: java.lang.NullPointerException",),
    ),
    Rule(
        name="assertion",
        pattern=r"^\S+: \S+:\d+: .*: Assertion .* failed\.$|^E   +\w*(Error|Exception)\b|^FAILED \S+::\w+",
        kind=FailureKind.USER_CODE,
        source="glibc: assert/assert.c; pytest: src/_pytest/reports.py",
        examples=("tool: t.c:2: main: Assertion `batch > 0' failed.", "E       AssertionError: accuracy is 0.41"),
        traps=("3 assertions passed",),
    ),
    Rule(
        name="node-module",
        pattern=r"^Error: Cannot find module '|^Error \[ERR_(MODULE_NOT_FOUND|REQUIRE_ESM|INVALID_ARG_\w+)\]",
        kind=FailureKind.USER_CODE,
        advice="install the module (npm ci) where the program runs",
        source="node: lib/internal/modules/cjs/loader.js, lib/internal/errors.js",
        examples=("Error: Cannot find module 'express'",),
        traps=("found module 'express'",),
    ),
    Rule(
        name="perl-module",
        pattern=r"^Can't locate \S+ in @INC|^Can't locate object method ",
        kind=FailureKind.USER_CODE,
        advice="install the module on the nodes",
        source="perl: pp_ctl.c (S_require_file)",
        examples=("Can't locate Foo/Bar.pm in @INC (you may need to install the Foo::Bar module) at main.pl line 1.",),
        traps=("located Foo/Bar.pm in @INC",),
    ),
    Rule(
        name="compiler",
        pattern=r"^\S+:\d+(:\d+)?: (fatal )?error: ",
        kind=FailureKind.USER_CODE,
        source="gcc: gcc/diagnostic.cc; clang: TextDiagnostic.cpp; nvcc",
        examples=("train.c:1:25: error: 'x' undeclared (first use in this function)",),
        traps=("train.c:1: warning: unused variable",),
    ),
    Rule(
        name="shell-code",
        pattern=r"^\S+: (line \d+: )?.*(: unbound variable$|[Ss]yntax error( near|: |$)|"
        r": parameter null or not set$|: bad substitution$|"
        r": ambiguous redirect$|: unary operator expected$|: integer expression expected$)",
        kind=FailureKind.USER_CODE,
        advice="correct the line of the script",
        source="bash: subst.c, parse.y, test.c",
        examples=(
            "bash: line 1: DATA_DIR: unbound variable",
            "main.sh: line 4: syntax error near unexpected token `fi'",
        ),
        traps=("main.sh: line 4: training",),
    ),
    Rule(
        name="shell-file",
        pattern=r"^[\w./-]+(: line \d+)?: .*: (No such file or directory|Not a directory|Is a directory)( \(\d+\))?$|"
        r"^\w+: .*(not in gzip format|unexpected end of file|does not look like a tar archive|unexpected EOF)|"
        r"^(ls|cp|mv|cat|tar|head|tail): cannot \w+ ",
        kind=FailureKind.USER_DATA,
        advice="check the path: relative ones start in the job's work folder, absolute ones must be on every node",
        source="coreutils: src/cat.c, src/cp.c; tar; gzip; bash: builtins/cd.def",
        examples=(
            "cat: missing.csv: No such file or directory",
            "bash: line 1: cd: /opt/project: No such file or directory",
            "gzip: stdin: not in gzip format",
        ),
        traps=("cat: reading from the standard input",),
    ),
    Rule(
        name="cpp-exception",
        pattern=r"^\s+what\(\):  ",
        kind=FailureKind.USER_CODE,
        retry=None,
        advice="a C++ exception was not caught",
        source="libstdc++: libsupc++/vterminate.cc",
        examples=("  what():  bad shape 3x4",),
        traps=("what(): is a method of std::exception",),
    ),
    Rule(
        name="java-exception",
        pattern=r"^(Exception in thread \"[^\"]*\" |Caused by: )[\w.$]+(Exception|Error)\b",
        kind=FailureKind.USER_CODE,
        retry=None,
        source="JDK: java.lang.ThreadGroup",
        examples=('Exception in thread "main" java.lang.IllegalStateException: x',),
        traps=("INFO no Exception in thread main",),
    ),
    Rule(
        name=CRASH,
        pattern=r"Segmentation fault|Fatal Python error: |\*\*\* Aborted at|double free or corruption|"
        r"terminate called|Illegal instruction|Floating point exception|SIGSEGV|stack smashing detected|"
        r"^Bus error|^Aborted|core dumped",
        kind=FailureKind.USER_CODE,
        retry=None,
        advice="a native library crashed: the lines of Python follow in the log, or with PYTHONFAULTHANDLER=1",
        source="glibc: malloc/malloc.c; cpython: Python/pylifecycle.c; bash: siglist.c",
        examples=("Segmentation fault (core dumped)", "Fatal Python error: Segmentation fault"),
        traps=("segmentation of faults: 3 classes",),
    ),
    Rule(
        name="panic",
        pattern=r"^thread '.*' panicked at|^panic: |^fatal error: |^F\d{4} \d\d:\d\d:\d\d|^FATAL\b|^CRITICAL\b",
        kind=FailureKind.USER_CODE,
        retry=None,
        source="rust: library/std/src/panicking.rs; go: src/runtime/panic.go; glog: src/logging.cc",
        examples=("thread 'main' panicked at src/main.rs:2:5:", "panic: runtime error: index out of range [5]"),
        traps=("panic mode is off",),
    ),
    Rule(
        name="script-error",
        pattern=r"^((\w+: )?(ERROR|Error|fatal)|error)\b[: ]",
        kind=FailureKind.USER_CODE,
        retry=None,
        source="the convention of command line programs",
        examples=("error: something is wrong", "ERROR: no input", "OMP: Error #15: Initializing libiomp5.so"),
        traps=("error_rate 0.1", "errors 0", "validation error: 0.1"),
    ),
    Rule(
        name="log-error",
        pattern=r"^\W{0,3}\d[\d\-/:T ,.Z+]{6,34}\W{0,3}(\S+ ){0,3}\W{0,3}\b(ERROR|CRITICAL|FATAL)\b|"
        r"^\{.*\"(level|severity|levelname)\": ?\"(error|fatal|critical|ERROR|FATAL|CRITICAL)\"",
        kind=FailureKind.USER_CODE,
        retry=None,
        source="cpython: Lib/logging; log4j; structlog",
        examples=(
            "2026-11-26 13:45:01,123 [ERROR] output folder is not empty",
            '{"level": "error", "msg": "cannot open shard 7"}',
        ),
        traps=("2026-11-26 13:45:01,123 [INFO] 0 errors",),
    ),
    Rule(
        name=LAST_LINE,
        pattern=r"(?!)",  # no line: it is chosen where no other rule found one
        kind=FailureKind.USER_CODE,
        retry=None,
        source="cpython: Python/pythonrun.c (the message of sys.exit); the convention of command line programs",
        examples=(),
        traps=("a line that no rule matches",),
    ),
)
