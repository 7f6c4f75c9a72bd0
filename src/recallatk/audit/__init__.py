"""The linter: rules that say when a benchmark misleads."""
