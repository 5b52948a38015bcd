"""Which files of the submitter are staged; they are packed, and put into the cache."""
