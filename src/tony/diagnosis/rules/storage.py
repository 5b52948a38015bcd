"""File systems: local, HDFS, object stores."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind

RULES = (
    Rule(
        name="disk-quota",
        pattern=r"Disk quota exceeded|\[Errno 122\]|(NSQuota|DSQuota|Quota)ExceededException|"
        r"The (DiskSpace|NameSpace) quota .* is exceeded",
        kind=FailureKind.QUOTA,
        advice="delete what is no longer needed, or ask for a larger quota",
        source="Linux: errno(3); hadoop-hdfs-client: org.apache.hadoop.hdfs.protocol.QuotaExceededException",
        examples=("OSError: [Errno 122] Disk quota exceeded: '/home/a/x'",),
        traps=("the quota of /home/ann is 10g",),
    ),
    Rule(
        name="disk-full",
        pattern=r"No space left on device|\[Errno 28\]|could only be written to 0 of the|"
        r"\b\d+ requested and \d+ written",
        kind=FailureKind.STORAGE,
        advice="free space on the disk that the program writes to, or write elsewhere",
        source="Linux: errno(3); hadoop-hdfs: BlockManager",
        examples=("OSError: [Errno 28] No space left on device",),
        traps=("12g of space left on device sda",),
    ),
    Rule(
        name="permission",
        pattern=r"PermissionError|Permission denied|AccessControlException|\[Errno 1[3]?\] |Operation not permitted|"
        r"\bAccessDenied\b|"
        r"HTTP Error 40[13]\b|returned error: 40[13]\b|\b40[13] (Client Error|Forbidden|Unauthorized)|gated repo|"
        r"\b(EACCES|EPERM)\b|Read-only file system|\[Errno 30\]|"
        r"Unable to locate credentials|NoCredentialsError|DefaultCredentialsError",
        kind=FailureKind.PERMISSION,
        advice="give the job's user access, or use another path",
        source="Linux: errno(3); org.apache.hadoop.security.AccessControlException; S3: error codes; botocore: "
        "exceptions.py; google-auth: exceptions.py",
        examples=(
            "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
            "Error: EACCES: permission denied, open '/var/log/app.log'",
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=ann, access=WRITE",
        ),
        traps=("[Errno 111] Connection refused",),
    ),
    Rule(
        name="disk-error",
        pattern=r"Input/output error|\[Errno 5\]|Stale file handle|\[Errno 116\]|Transport endpoint is not connected|"
        r"BlockMissingException|SafeModeException|StandbyException|Name node is in safe mode|"
        r"\b(SlowDown|ServiceUnavailable|InternalError)\b.*(S3|PutObject|GetObject)|RequestTimeTooSkewed",
        kind=FailureKind.STORAGE,
        retry=True,
        advice="the file system failed: if it happens again, tell its administrator",
        source="Linux: errno(3); org.apache.hadoop.hdfs; S3: error codes",
        examples=("OSError: [Errno 5] Input/output error", "OSError: [Errno 116] Stale file handle: 'a'"),
        traps=("OSError: [Errno 53] x",),
    ),
    Rule(
        name="missing-bucket",
        pattern=r"HTTP Error 4(04|10)\b|returned error: 404|\b4(04|10) Client Error|RepositoryNotFoundError|"
        r"NoSuchBucket|NoSuchKey|Path does not exist: (hdfs|s3)|File does not exist: /",
        kind=FailureKind.USER_DATA,
        advice="check the path and the credentials that the job has",
        source="S3: error codes; hadoop-hdfs: INodeFile",
        examples=("java.io.FileNotFoundException: File does not exist: /data/x",),
        traps=("HTTP 200: 404 objects listed",),
    ),
)
