"""The command `palio`: one file per subcommand, `reading` and `writing` for files, `terminal` for looks."""
