"""Finding the right memory within a scope: words, signals, fusion, gates, each score with its parts."""
