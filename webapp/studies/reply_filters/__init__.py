"""Reply filters. To add one, add a file with one class.

The file lies here, or in a module that CONFAB_PLUGINS names. The class defines the filter's name and search
(`base.ReplyFilter`); `@register_filter` adds it to the list. The builder, studies' files, chats, arenas and self-play
then offer it.
"""
