"""Filters of replies, one a file. To add one: a file here, or in a module that CONFAB_PLUGINS names, with one class.

The class says what the filter is called and what it looks for (`base.ReplyFilter`); `@register_filter` lists it. The
builder, studies' files, chats, arenas and self-play know it then.
"""
