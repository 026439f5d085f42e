"""`python -m diffmask` is `diffmask`: the door itself, so that Ctrl-C while it opens ends it without a traceback."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from .cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
