"""Ready sets of guard rules, as data. Nothing is in force until a route names a set."""
