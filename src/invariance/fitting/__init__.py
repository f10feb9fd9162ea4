"""Models of a user's own data: an estimator, a reader of its files, and an assessment of both."""
