"""Sources of settings: job and site files, flags, environment, calls, and secrets."""
