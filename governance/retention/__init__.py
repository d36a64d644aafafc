"""Retention: what is kept how long, by policy, and taking away what is past it."""
