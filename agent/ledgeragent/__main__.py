"""`python -m ledgeragent`: the command line."""

from ledgeragent.cli import main

main()
