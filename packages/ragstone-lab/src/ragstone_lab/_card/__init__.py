"""The judge card: how far the scores of a judge can be trusted, measured with human labels."""
