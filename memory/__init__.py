"""The kernel: what is kept, found and packed. It takes a Scope and knows no user or request."""
