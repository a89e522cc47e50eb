"""One file per step of a participant's way: the page that shows it, and when it comes.

A study's protocol names its steps in order (`webapp/studies/protocols/`). A step is added by a file here
with one `@register_step` class; its page gets an address in `participant/urls.py`.
"""

from __future__ import annotations
