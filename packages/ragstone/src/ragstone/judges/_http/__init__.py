"""One OpenAI-compatible endpoint: requests, its dialect, exact reads, and what it can do."""
