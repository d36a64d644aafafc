"""Behaviour memory: rules, examples and intents that people propose and approve for a system prompt."""
