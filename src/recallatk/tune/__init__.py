"""From a target to a setting: the search space, the search and its validation."""
