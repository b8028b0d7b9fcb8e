"""Whether what is promised holds: promises looked at from outside, in whole runs."""
