"""`python -m board`: the command line."""

from board.cli import main

if __name__ == "__main__":
    main()
