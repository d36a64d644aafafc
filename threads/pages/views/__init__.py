"""What a browser asks of the chat page."""
