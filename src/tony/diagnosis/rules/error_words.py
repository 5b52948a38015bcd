"""What the words of an error say of its kind, and whether it may pass, where only a rule for any error matches it."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

#: What gives access, and what is said of it where it is missing or refused.
_SECRET = r"(\bcredentials?|(?<![a-z0-9])(api|access|secret)[ _-]?(key|token))"
_LACKING = r"\b(no|missing|invalid|incorrect|wrong|bad|expired|required|locate|determine|provide|not|must be)"
_CANNOT = r"\b(could ?n[o']t|can ?not|can't|unable to|failed to|error while|error) "

RULES = (
    Rule(
        name="words-of-a-peer",
        pattern=r"(?i)\b(rank|worker|peer|task|node|replica)[ :#=]*\d+\b.*"
        r"\b(lost|died|dead|disconnected|unreachable|timed out|gone|not respond\w*|no heartbeat)|"
        r"\b(lost|no heartbeat|timed out|disconnected|no answer)\b.*\b(rank|worker|peer|task|node|replica)[ :#=]*\d+",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="the words of programs about their peers",
        examples=(
            "RuntimeError: lost contact to worker 2",
            "RuntimeError: timed out waiting for rank 3",
            "ERROR: peer 4 died",
        ),
        traps=("RuntimeError: worker 2 has another vocabulary", "RuntimeError: lost 3 gradients"),
    ),
    Rule(
        name="words-of-a-busy-server",
        pattern=r"(?i)\brate.?limit|too many (requests|connections)|\bthrottl|overloaded|slow ?down|"
        r"(connection|worker) (slots|pool)\b.*\b(exhausted|full|reserved)|\bretry (again|later|after)|"
        r"\btry again (later|after|in|shortly|soon)\b|\btemporary (failure|error)|\btemporarily (unavailable|down)|"
        r"\b(service|server|host|broker|endpoint|database|hub)s?( is| are)?( currently)? unavailable|"
        r"(?-i:\bUNAVAILABLE\b)|ServiceUnavailable|\bbad gateway|internal server error|"
        r"BusyLoading|\bis (starting up|loading the dataset)|"
        r"\b(HTTP|status|code|error|answered|returned|response)\W{1,3}(code\W{1,2})?(429|50[0234])\b|"
        r"\b(429|50[0234]) (GET|POST|PUT|HEAD|Server|Service|Gateway|Too)\b",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="the server refused or failed: try again later, or make fewer requests at a time",
        source="RFC 9110, section 15.6; the words of services",
        examples=(
            "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.example/b: Backend Error",
            "RuntimeError: label service returned 502",
            "psycopg2.OperationalError: FATAL:  remaining connection slots are reserved",
            "redis.exceptions.BusyLoadingError: Redis is loading the dataset in memory",
        ),
        traps=(
            "RuntimeError: expected 500 rows, got 3",
            "RuntimeError: error 7 of 502 records",
            "ValueError: worker pool size must be positive",
            "RuntimeError: GPU unavailable",
            "Exception: install libsox and try again",
        ),
    ),
    Rule(
        name="words-of-a-device-error",
        pattern=r"\b(CUDA|HIP|ROCm|cuBLAS|cuDNN|cuFFT|cuSOLVER|NVML|XLA) (runtime |driver )?[Ee]rror\b",
        kind=FailureKind.ACCELERATOR,
        retry=None,
        advice="see the manual of the library for this error; if only one node has it, exclude that node",
        source="CUDA runtime API: cudaError; pytorch: c10/cuda/CUDAException.cpp",
        examples=("RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",),
        traps=("RuntimeError: XLA errors are ignored",),
    ),
    Rule(
        name="words-of-a-timeout",
        pattern=r"(?i)\btimed[ -]?out\b|\btime-?out (after|of|while|waiting|exceeded|expired|reached|reading)|"
        r"(?-i:Timeout(Error|Exception|Expired)?(: |$))|\bdeadline (was )?(exceeded|passed)|"
        r"\bg[ai]v(e|ing) up (waiting|after)|\bdid not (respond|answer|become ready)|\bno (response|answer) from|"
        r"\btook too long",
        kind=FailureKind.TIMEOUT,
        retry=True,
        advice="see what it waited for, or raise the limit that the message names",
        source="the words of programs that wait",
        examples=(
            "RuntimeError: gave up waiting for the label service after 3 attempts",
            "filelock._error.Timeout: The file lock 'index.lock' could not be acquired.",
        ),
        traps=("RuntimeError: timeout must be positive", "RuntimeError: unknown option: timeout"),
    ),
    Rule(
        name="words-of-an-accelerator",
        pattern=r"\b(GPUs?|TPUs?|CUDA|accelerators?)\b.*\b(not available|unavailable|not found|are available|required)|"
        r"(?i:\b(no|needs?|requires?|requested)) (a |an |\d+ |at least \d+ )?(gpu|GPU|CUDA|TPU|accelerator)",
        kind=FailureKind.ACCELERATOR,
        retry=None,
        advice="request GPUs for the role (gpus), and use a build of the framework that fits the driver",
        source="the words of programs and libraries",
        examples=("MisconfigurationException: You requested gpu: [0, 1, 2, 3]", "RuntimeError: CUDA unavailable"),
        traps=("RuntimeError: GPU batch size must be even",),
    ),
    Rule(
        name="words-of-access",
        pattern=r"(?i)\bunauthori[sz]ed|\bforbidden\b|\baccess (is )?denied|\bnot (authori[sz]ed|permitted|logged in)|"
        rf"{_LACKING} (\w+ ){{0,2}}{_SECRET}|{_SECRET}\b.*{_LACKING}\b|\bauthenticate\b|\bgated (repo|model)|"
        r"authentication(error|exception|failed)?\b(?! (server|service|provider|endpoint))|"
        r"\b(invalid|expired|missing|bad) (\w+ )?token\b(?! id)|\b(token|session|password|certificate)\b.* expired\b",
        kind=FailureKind.PERMISSION,
        advice="give the job the key, token or access that it lacks",
        source="the words of programs and services",
        examples=(
            "wandb.errors.UsageError: api_key not configured (no-tty)",
            "Exception: could not authenticate with the registry",
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
            "openai.AuthenticationError: Error code: 401 - Incorrect API key provided",
        ),
        traps=(
            "RuntimeError: missing token id 7",
            "Exception: unsupported tokenizer: bpe3",
            "CredentialRetrievalError: Error when retrieving credentials from iam-role: timed out",
            "openai.RateLimitError: Error code: 429 - rate limit reached for api key",
        ),
    ),
    Rule(
        name="words-of-a-connection",
        pattern=r"(?i)\b(connect\w*|socket|host|tunnel)\b.*"
        r"\b(refused|reset|closed|lost|unreachable|aborted|broken|dropped|failed)\b|"
        + _CANNOT
        + r"(re)?(connect\w*|reach|resolve)\b|"
        r"\b(failed|unable) to (fetch|download|retrieve)\b|\bdisconnected\b|\bunreachable\b|\bsocket hang up|"
        r"\bdownload (failed|interrupted)|\bcommunicat(e|ing|ion) (with|error|failure)|\b(gone away|lost connection)\b|"
        r"\bEOF occurred in violation of protocol|UNEXPECTED_EOF_WHILE_READING|\bchannel (is |was )?closed|"
        r"\bcheck your (\w+ )?connection\b|LocalEntryNotFound|"
        r"\bprematurely\b|\bresponse\b.*\b(incomplete|not completed)|\bNo(Brokers|Hosts?|Servers?|Nodes?)Available|"
        r"(?-i:\b(IncompleteRead|ProtocolError|ChunkedEncodingError)\b)|"
        r"(?-i:\bE(CONN\w+|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)\b|Connect\w*(Error|Exception|Loss)\b)",
        kind=FailureKind.NETWORK,
        retry=True,
        advice="check the address, that its service runs, and that the node may reach it",
        source="Linux: errno(3); the words of clients",
        examples=(
            "OSError: We couldn't connect to 'https://hub.example' to load the files",
            "Error: connect ECONNREFUSED 127.0.0.1:9",
            "ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:2427)",
            "OperationalError: (2006, 'MySQL server has gone away')",
            "google.auth.exceptions.TransportError: Failed to retrieve http://metadata.google.internal/",
            "LocalEntryNotFoundError: An error happened while trying to locate the files on the Hub",
            "kazoo.exceptions.ConnectionLoss",
            "wandb.errors.CommError: Error communicating with wandb process",
        ),
        traps=(
            "RuntimeError: layer 3 is not connected to an input",
            "RuntimeError: channel 3 normalization failed",
            "RuntimeError: neural network initialization failed",
        ),
    ),
    Rule(
        name="words-of-a-lock",
        pattern=r"(?i)\b(file|database|table|resource)\b.*\b(is locked|is busy)|\bresource busy|"
        r"\block\b.*\b(held|acquired?|another)\b|\bacquir\w+\b.*\block\b",
        kind=FailureKind.STORAGE,
        retry=True,
        advice="another process uses it: end that one, or wait for it",
        source="sqlite: src/main.c (SQLITE_BUSY); Linux: errno(3)",
        examples=("sqlite3.OperationalError: database is locked", "RuntimeError: the lock of the cache is held by 17"),
        traps=("RuntimeError: block 3 is missing",),
    ),
    Rule(
        name="words-of-memory",
        pattern=r"(?i)\bout of memory|\b(not enough|insufficient|ran out of) memory|\bmemory (is )?exhausted|"
        r"\bfailed to allocate|\bheap space",
        kind=FailureKind.MEMORY,
        source="the words of programs and libraries",
        examples=("RuntimeError: out of memory while building the index", "fatal error: runtime: out of memory"),
        traps=("RuntimeError: memory format must be channels_last",),
    ),
    Rule(
        name="words-of-data",
        pattern=r"(?i)\bcorrupt|\btruncated\b|\bmalformed\b|\bunexpected (end of|eof)|\bmagic (bytes|number)|"
        r"\bfile signature|\bchecksum|\binvalid (data|header|record|utf|json|csv|xml|image|file)|"
        r"\bnot an? (valid )?(\w+ )?(file|archive|image|database)\b|\bno such (file|table|column)|"
        r"\b(file|folder|directory|path|dataset)\b.*\b(not found|does not exist|is empty|is missing)|"
        + _CANNOT
        + r"(open|read|parse|decode|deserializ\w+)\b|FileNotFound|NoSuchFile",
        kind=FailureKind.USER_DATA,
        advice="check the input: that it is there, whole, and of the format that the program expects",
        source="Linux: errno(3); the words of programs that read files",
        examples=(
            "OSError: Unable to synchronously open file (file signature not found)",
            "clip-2.mp4: Invalid data found when processing input",
        ),
        traps=("RuntimeError: invalid learning rate: -1", "RuntimeError: read the documentation"),
    ),
)
