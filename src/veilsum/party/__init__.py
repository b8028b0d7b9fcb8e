"""Parties: real ones, on a network or as processes of one computer."""
