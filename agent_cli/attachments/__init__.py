"""Turn files and images a person names into content blocks."""
