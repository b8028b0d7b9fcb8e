"""Graphs: who talks to whom, and how well that holds."""
