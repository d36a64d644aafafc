"""Benchmarks: `make bench`. They report medians and assert that the work was done, never a time."""
