"""Filters of replies, one a file. To add one: a file here, or in a module that CONFAB_PLUGINS names, with one class.

The class defines the filter's name and search (`base.ReplyFilter`); `@register_filter` adds it to the list. The
builder, studies' files, chats, arenas and self-play then offer it.
"""
