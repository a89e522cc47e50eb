"""External code, loaded once every app is ready.

It consists of plug-ins and the metrics of `metrics.yaml`.
"""
