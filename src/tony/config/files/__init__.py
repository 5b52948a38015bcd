"""Where settings come from: job and site files, flags, environment, calls, secrets; and the paths in them."""
