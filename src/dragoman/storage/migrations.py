"""The tables of the file, as the steps that lead to them. A step that has been released is never changed."""

#: Each is a script; the file remembers how many of them it has seen. New ones go to the end.
MIGRATIONS: tuple[str, ...] = ()
