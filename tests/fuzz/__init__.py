"""Foreign bytes, from wherever they come: every door of ours answers with a value or with an error of ours."""
