"""``python -m epsworth``: the command line, where its script is not on the path."""

from epsworth.cli import main

if __name__ == "__main__":
    main()
