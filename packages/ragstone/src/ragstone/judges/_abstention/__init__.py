"""Three ways to find how likely a reader abstains, its prompt, and what counts as an abstention."""
