"""Plots drawn by the server: data in, SVG and a table with the same numbers out.

`svg` builds elements, `words` measures and prints text and numbers, `scale` maps values, `marks` draws
the recurring marks, `labels` places names without overlap; the other modules are one figure each and
return a `Figure`, which `templates/dashboard/figure.html` frames. Colours are CSS classes only, so a
figure follows the theme and needs no inline style.
"""
