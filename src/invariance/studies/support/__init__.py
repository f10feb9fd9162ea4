"""What studies are built of."""
