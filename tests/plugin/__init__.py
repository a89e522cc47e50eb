"""A laboratory's plug-in: one file for each thing that can be added, brought in by `CONFAB_PLUGINS=tests.plugin`."""
