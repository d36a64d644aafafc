"""Embedding models: texts in, unit vectors out; two in this package's wheels, any other over HTTP."""
