"""Sums over parties: recipes, terms, releases, and how a question is run."""
