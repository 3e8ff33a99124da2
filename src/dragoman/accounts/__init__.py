"""Who may ask for what, and how much of it: decisions only, the clock is passed in."""
