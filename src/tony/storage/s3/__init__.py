"""Objects in S3 and in servers with its API, with the standard library: pods have no other."""
