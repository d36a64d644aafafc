"""Forgetting: what is tagged in a person's texts, a thread, what is too old, a whole tenant."""
