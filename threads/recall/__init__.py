"""Recall in use: what is indexed of threads, and finding it for a run, a tool or the API."""
