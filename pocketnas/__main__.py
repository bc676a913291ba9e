"""`python -m pocketnas` is `pocketnas`."""

from pocketnas.cli import main

if __name__ == "__main__":
    main()
