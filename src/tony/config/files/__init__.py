"""Sources of settings: job and site files, flags, environment, calls, secrets; and the paths in them."""
