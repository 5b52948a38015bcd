"""Files in HDFS: metadata by RPC, bytes over HTTP."""
