"""Self-play, metrics, statistics and the hybrid metric: values in, values out.

Imports only `chatbots`. Knows nothing of the web, the database or the environment. Importing it loads
no torch and no statsmodels: metrics and fits import them when they compute.
"""
