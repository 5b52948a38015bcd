"""Foreign bytes, from wherever they come: every parser answers with a value or with an error of ours."""
