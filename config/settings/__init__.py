"""Settings: base, and what differs for local, test and production."""
