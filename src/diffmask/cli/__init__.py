"""The door at the command line: the only room that prints, parses arguments and exits."""
