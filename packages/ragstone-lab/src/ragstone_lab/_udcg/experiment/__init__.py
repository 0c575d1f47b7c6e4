"""The experiments of the UDCG paper on a user's own questions, passages and models."""
