"""Whole walks through a running instance."""
