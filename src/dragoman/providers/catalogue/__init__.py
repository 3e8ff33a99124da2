"""Data: published facts about single models, one file for each vendor. `providers.presets` reads them.

Entries apply in the order of a file, so general patterns come first.
"""
