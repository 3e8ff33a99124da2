"""One request and its reply, end to end: choose, translate, call, translate back, survive."""
