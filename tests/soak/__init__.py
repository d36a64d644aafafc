"""The soak: a whole Credence under steady traffic and faults for a stated time (`make soak`)."""
