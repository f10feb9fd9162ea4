"""What the commands for tables share."""

from pathlib import Path


def needed(data: Path) -> None:
    """Make sure that a table can be read here."""
    from invariance.errors import BadValue

    if data.is_dir():
        raise BadValue(f"{data} is a folder; these commands read tables: a file that ends in .csv, .tsv or .parquet")
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise BadValue("reading tables needs pyarrow: pip install 'invariance[tables]'") from None
