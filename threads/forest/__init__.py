"""The summary forest of a lossless thread: planned, written by the worker, read, checked."""
