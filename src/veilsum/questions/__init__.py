"""One module or package for each question to tables."""
