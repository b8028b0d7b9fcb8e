"""What people look at: figures and tables, made of plain results."""
