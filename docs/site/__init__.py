"""The docs site: what stands in it, and how `make docs` makes it of docs/ and the OpenAPI document."""
