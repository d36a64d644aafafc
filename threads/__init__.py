"""Serves: runs, threads, the pipeline that calls the steps in order, API, pages, worker entries."""
