"""The chat page: a person, or a member of staff, talks to an agent in a browser."""
