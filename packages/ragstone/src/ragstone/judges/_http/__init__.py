"""One OpenAI-compatible endpoint: requests, dialect, exact probabilities and capabilities."""
