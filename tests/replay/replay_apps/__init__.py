"""Small RAG applications on fake models, to be recorded by the real instrumentations."""
