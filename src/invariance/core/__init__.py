"""What everything is made of: values, environments, batches, families, errors, catalogues."""
