"""The prompt of a run: what it is made from, packed within its budget, and its account."""
