"""Models of somebody's own data: an estimator and what reads the files it is for, learned and kept together."""
