"""Settings, split by subject. The only place that reads the environment.

`embedded` is the default, `production` refuses to start without its secrets, `test` is for pytest.
"""
