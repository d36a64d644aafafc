"""Settings, URLs, server entry points and the local instance behind `make run`."""
