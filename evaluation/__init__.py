"""Self-play, metrics, statistics and the hybrid metric, as functions of plain values.

Imports only `chatbots`. Independent of web, database and environment. Importing it loads neither torch nor statsmodels;
metrics and fits import them when they compute.
"""

from evaluation.old_paths import accept_old_paths

accept_old_paths()
