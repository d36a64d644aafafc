"""The tenant's vocabulary: corrections propose terms, people decide, weights rise and fall."""
