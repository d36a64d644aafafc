"""The HTTP API: the only package that knows HTTP and DRF."""
