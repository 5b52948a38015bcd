"""Why a program failed: rules for lines of its output, and what its exit adds. Pure."""
