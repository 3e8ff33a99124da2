"""What is wrong, and what to do about it: the surroundings, the providers, and what a model can do.

A model is examined through the gateway itself, as an agent would use it, one small question at a time.
"""
