"""Fits on a formula, shared by the questions that need one."""
