"""Pages in a browser: surveys of guests, runs as they go, a planner."""
