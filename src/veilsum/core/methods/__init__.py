"""Phase II: one method per file, written against effective costs alone."""
