"""One party's protocol, without I/O: messages go in, effects come out."""
