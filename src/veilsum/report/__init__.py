"""Figures, tables and reports for people, made from plain results."""
