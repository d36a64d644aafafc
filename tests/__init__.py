"""The test suite; it mirrors the source tree."""
