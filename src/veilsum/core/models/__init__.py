"""Regressions whose statistics are sums over parties: algebra without any protocol."""
