"""External code loaded once every app is ready: plug-ins and the metrics of `metrics.yaml`."""
