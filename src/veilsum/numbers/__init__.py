"""Numbers: fixed point, mask laws, randomness, masks, secrets."""
