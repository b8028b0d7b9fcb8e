"""Drivers: whoever carries out what parties do together, in one process."""
