env:
	@scripts/env
