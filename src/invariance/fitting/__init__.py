"""Models of somebody's own data: an estimator, what reads its files, and an assessment of both."""
