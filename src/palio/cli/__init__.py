"""The command `palio`: its subcommands, their options and output, and how they look in a terminal."""
