"""Systems beside each other: which differ, by how much, and what cannot be said."""
