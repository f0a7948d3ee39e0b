"""`python -m palio` is the command `palio`."""

from palio.cli.main import main

if __name__ == "__main__":
    main()
