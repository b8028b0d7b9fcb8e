"""Numbers: units, layouts of sums, limbs, elementary functions, secrets."""
