"""One file per study protocol: which bot a person meets next, and in which steps.

A protocol is added by a file here with one `@register_protocol` class; the admin's choice, the
participant pages and the contract tests find it by its name.
"""

from __future__ import annotations
