"""Tables: schema and formula, without reading files."""
