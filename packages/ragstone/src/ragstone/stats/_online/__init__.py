"""Statistics of a stream that may be looked at after every item."""
