"""The HTML renderer with its templates, style and script."""
