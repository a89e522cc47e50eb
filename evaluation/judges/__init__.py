"""Language models as judges, compared with the people whose ratings they would replace.

`gold.py` holds the ratings, `scoring.py` requests the scores, `alternative_test.py` and `agreement.py` compare them,
`comparison.py` puts several judges side by side, `drift.py` scores a stored sample again.
"""
