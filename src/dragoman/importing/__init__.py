"""Other gateways' configurations as ours, with a report of what has no equivalent.

Nothing is dropped in silence: every key of the other file is taken over, needless here, or noted. Secrets
become references to the environment; their values appear nowhere.
"""
