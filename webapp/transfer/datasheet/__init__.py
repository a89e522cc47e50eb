"""The human evaluation datasheet (HEDS 3.0; Belz and Thomson, 2025), filled in from a study as far as a program can
know.

`questions` has the questions with their numbers, `filling` what the study answers, `writing` makes files of both.
What only people can answer they answer on a page of the study; `webapp.studies.datasheet` keeps it.
"""
