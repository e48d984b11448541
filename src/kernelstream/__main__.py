"""Entry point of ``python -m kernelstream``: runs the command line."""

from kernelstream.cli import main

if __name__ == "__main__":
    main()
