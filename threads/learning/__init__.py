"""Jobs of governed memory: what is learned from runs, and what ages."""
