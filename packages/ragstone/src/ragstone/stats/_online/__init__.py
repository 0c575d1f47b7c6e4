"""Statistics of a stream that stay valid after every item."""
