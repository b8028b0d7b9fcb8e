"""Everything that reads or writes disk."""
