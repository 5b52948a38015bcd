"""The shell, the dynamic linker, the C library and the kernel."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

RULES = (
    Rule(
        name="command-not-found",
        pattern=r"\bcommand not found\b|^\S*sh: \d+: \S+: not found$|^(\S*/)?env: .*No such file or directory|"
        r"^\S*sh: (line \d+: )?\S+: No such file or directory$|bad interpreter|cannot execute|Exec format error|"
        r"^\S*sh: (line \d+: )?\S+: (Permission denied|Is a directory)$",
        kind=FailureKind.LAUNCH,
        source="bash: execute_cmd.c; dash: exec.c; Linux: execve(2)",
        examples=(
            "bash: line 1: tranin: command not found",
            "sh: 1: tranin: not found",
            "bash: ./run.sh: /bin/nosh: bad interpreter: No such file or directory",
            "bash: line 1: ./run.sh: cannot execute binary file: Exec format error",
            "/usr/bin/env: ‘bash\\r’: No such file or directory",
        ),
        traps=("the file was not found",),
    ),
    Rule(
        name="script-missing",
        pattern=r"python[\d.]*: can't open file|can't find '__main__' module|^\S*python[\d.]*: No module named ",
        kind=FailureKind.LAUNCH,
        advice="check the path of the script, and that source (tony run: --source) names the folder with it",
        source="cpython: Modules/main.c, Lib/runpy.py",
        examples=(
            "python: can't open file '/w/tranin.py': [Errno 2] No such file or directory",
            "/usr/bin/python3: No module named tranin",
        ),
        traps=("python: main.py started",),
    ),
    Rule(
        name="library-missing",
        pattern=r"error while loading shared libraries|cannot open shared object file|"
        r"^(?!.*ImportError).*undefined symbol:|version `(GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found|ld\.so: object",
        kind=FailureKind.LAUNCH,
        advice="install the library on the nodes, or bring an environment that contains it",
        source="glibc: elf/dl-load.c, elf/dl-version.c",
        examples=("./train: error while loading shared libraries: libfoo.so.1: cannot open shared object file",),
        traps=("loading shared libraries of the job",),
    ),
    Rule(
        name="too-many-files",
        pattern=r"Too many open files|\[Errno 24\]",
        kind=FailureKind.QUOTA,
        advice="close files that are no longer used, use fewer workers, or ask for a higher limit (ulimit -n)",
        source="Linux: errno(3)",
        examples=("OSError: [Errno 24] Too many open files: 'x'",),
        traps=("opened 24 files",),
    ),
    Rule(
        name="too-many-processes",
        pattern=r"Resource temporarily unavailable|BlockingIOError: \[Errno 11\]|can't start new thread|"
        r"pthread_create failed|fork: retry",
        kind=FailureKind.QUOTA,
        advice="start fewer processes and threads, or ask for a higher limit (pids, ulimit -u)",
        source="Linux: fork(2), errno(3); cpython: Modules/_threadmodule.c",
        examples=(
            "RuntimeError: can't start new thread",
            "bash: fork: retry: Resource temporarily unavailable",
        ),
        traps=("starting 11 threads",),
    ),
    Rule(
        name="file-too-large",
        pattern=r"File too large|\[Errno 27\]|File size limit exceeded",
        kind=FailureKind.QUOTA,
        advice="write smaller files, or ask for a higher limit (ulimit -f)",
        source="Linux: errno(3), setrlimit(2)",
        examples=("OSError: [Errno 27] File too large",),
        traps=("File too small for two shards: reading all",),
    ),
    Rule(
        name="name-unknown",
        pattern=r"gaierror|Name or service not known|Temporary failure in name resolution|UnknownHostException|"
        r"No address associated with hostname|Could not resolve host|: no such host$|\b(ENOTFOUND|EAI_AGAIN)\b",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="check the name, and that the node can resolve it",
        source="glibc: sysdeps/posix/gai_strerror.c; JDK; curl",
        examples=(
            "socket.gaierror: [Errno -2] Name or service not known",
            "dial tcp: lookup api.example: no such host",
        ),
        traps=("resolved the host in 3 ms",),
    ),
    Rule(
        name="connection-peer",
        pattern=r"Connection (reset|closed) by (remote )?peer|Connection aborted|Broken pipe|ConnectionResetError|"
        r"BrokenPipeError|EOFError: .*connection|peer closed|RemoteDisconnected|"
        r"^ConnectionError\b.*\b(closed|lost|reset|dropped)|^ConnectionAbortedError",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="Linux: errno(3)",
        examples=("ConnectionResetError: [Errno 104] Connection reset by peer",),
        traps=("connected to peer 3",),
    ),
    Rule(
        name="server-busy",
        pattern=r"HTTP Error (429|5\d\d)\b|returned error: (429|5\d\d)\b|"
        r"\b(429|5\d\d) (Client|Server) Error|429 Too Many Requests|50[234] (Bad Gateway|"
        r"Service Unavailable|Gateway Time-?out)",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="the server refused or failed: try again later, or make fewer requests at a time",
        source="cpython: Lib/urllib/error.py; requests: models.py",
        examples=("urllib.error.HTTPError: HTTP Error 503: Service Unavailable",),
        traps=("served 503 requests",),
    ),
    Rule(
        name="tls",
        pattern=r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|curl: \((35|51|58|60|77)\)",
        kind=FailureKind.NETWORK,
        advice="install the certificate authority of the server on the nodes (SSL_CERT_FILE, REQUESTS_CA_BUNDLE)",
        source="cpython: Modules/_ssl.c; curl: include/curl/curl.h",
        examples=("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",),
        traps=("certificate verified",),
    ),
    Rule(
        name="address-taken",
        pattern=r"Address already in use|EADDRINUSE",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="use the port that tony reserves for the task, or port 0, instead of a fixed one",
        source="Linux: errno(3)",
        examples=("OSError: [Errno 98] Address already in use",),
        traps=("address 10.0.0.5 is in use by worker 1",),
    ),
    Rule(
        name="connection-refused",
        pattern=r"Connection refused|ConnectionRefusedError|Network is unreachable|No route to host|"
        r"Connection timed out|Max retries exceeded|curl: \((7|28|55|56)\)|ConnectTimeout|ReadTimeout|"
        r"\[Errno 1(01|10|11|13)\]|\bE(CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)\b",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="check the address, that its service runs, and that the node may reach it",
        source="Linux: errno(3); requests: exceptions.py; node: lib/internal/errors.js",
        examples=("ConnectionRefusedError: [Errno 111] Connection refused", "Error: connect ECONNREFUSED 127.0.0.1:9"),
        traps=("connected to 10.0.0.5 after 111 ms",),
    ),
)
