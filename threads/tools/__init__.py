"""What an agent's model may call during a run; identity comes from the scope, never from a call."""
