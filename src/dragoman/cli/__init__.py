"""The `dragoman` command: one file per subcommand."""
