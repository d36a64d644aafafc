"""What bodies look like, in and out; the OpenAPI document is generated from these."""
