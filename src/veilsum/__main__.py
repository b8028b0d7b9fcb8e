"""`python -m veilsum` is the `veilsum` command."""

from veilsum.cli import main

if __name__ == "__main__":
    main()
