"""The protocol of one party, without I/O."""
