"""SVG drawings of results for pages and notebooks."""
