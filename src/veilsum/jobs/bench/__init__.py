"""How fast the engines are: beside this machine's floors, and beside other packages."""
