"""The strategy `lossless`: a thread's past as messages, old turns as the nodes of its forest."""
