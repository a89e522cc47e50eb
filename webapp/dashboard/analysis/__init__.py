"""The analysis of a study, told once for the dashboard and for the report.

Each module makes one `Section` out of `StudyData`: sentences, figures and tables; templates only lay them
out. `study_data` reads everything in a constant number of queries.
"""
