"""Jobs: whole pieces of work made of simulations and, later, of real runs."""
