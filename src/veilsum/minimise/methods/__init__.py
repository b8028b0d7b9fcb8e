"""Methods: phase II, which sees effective costs only."""
