"""The rules of the linter, one module each."""
