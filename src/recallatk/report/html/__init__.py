"""The renderer that makes one HTML file of a document, with its templates, style and script."""
