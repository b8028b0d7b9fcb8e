"""Simulation: every party in one process, all agents as one array."""
