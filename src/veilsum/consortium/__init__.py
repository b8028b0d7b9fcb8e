"""Agreements: what parties have settled before they start."""
