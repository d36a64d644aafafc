"""The demo: two tenants, each with an agent, a key and an imported conversation."""
