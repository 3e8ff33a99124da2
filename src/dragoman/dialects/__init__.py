"""The APIs' languages. Each folder speaks one, in the same files; none knows another."""
