"""Engines: iterations of a method over all parties as arrays."""
