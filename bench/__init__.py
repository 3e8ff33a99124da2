"""dragoman's own benchmark: ratios measured side by side in one run."""
