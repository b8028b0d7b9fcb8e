"""What a coalition can learn: guarantees, divergences, views."""
