"""One view a path, one domain call a method."""
