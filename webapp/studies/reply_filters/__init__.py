"""Reply filters; to add one, add a file with one class.

The file is in this package, or in a module listed in CONFAB_PLUGINS. The class defines the filter's name and search
(`base.ReplyFilter`); `@register_filter` adds it to the list. The builder, study files, chats, arenas and self-play then
offer it.
"""
