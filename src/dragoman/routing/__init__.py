"""Which target a request goes to, and what to do when one fails: decisions only, the clock is passed in."""
