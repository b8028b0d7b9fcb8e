"""Pure mathematics: no files, no clocks, no sockets, no global randomness."""
