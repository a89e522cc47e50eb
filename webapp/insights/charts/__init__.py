"""Charts drawn by the server: SVG, and a table of the numbers.

`evaluation.plots` builds elements, measures text, maps values, draws the recurring marks and places names without
overlap; each function here makes one figure and returns a `PageFigure`, which `templates/dashboard/figure.html`
frames. Colours are CSS classes only, so a figure follows the theme and needs no inline style.
"""
