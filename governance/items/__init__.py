"""Memory items: what people and agents keep by key, bound to a role."""
