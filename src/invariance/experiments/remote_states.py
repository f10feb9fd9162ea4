"""Resume states at a URI that fsspec opens: a folder that all machines share, S3, Google Cloud Storage and others.

Tasks write and read them there themselves, so that nothing but their existence is told to the driver.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fsspec.core import url_to_fs

from invariance.core.errors import BadValue, StoreError, shortened
from invariance.experiments import resume
from invariance.experiments.run import ResumeState


class RemoteStates:
    """The resume states under a URI, by the keys of their runs."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        try:
            self.files, self.folder = url_to_fs(uri)
        except (ValueError, ImportError) as error:
            raise BadValue(f"cannot keep resume states at {shortened(uri)}: {error}") from None

    def _place(self, key: str) -> str:
        return f"{self.folder.rstrip('/')}/{key}.safetensors"

    def save(self, run: ResumeState, key: str) -> None:
        """Write a resume state; it takes the place of the one before when it is there whole."""
        place = self._place(key)
        try:
            self.files.makedirs(self.folder, exist_ok=True)
            self.files.pipe_file(f"{place}.part", resume.packed(run))
            self.files.mv(f"{place}.part", place)
        except OSError as error:
            raise StoreError(f"cannot save the state of a run at {self.uri} ({error}); check the URI") from None

    def load(self, key: str) -> ResumeState | None:
        """The resume state of a run, or None where there is none as it was written."""
        try:
            content = self.files.cat_file(self._place(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read the state of a run at {self.uri} ({error}); check the URI") from None
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "state.safetensors"
            copy.write_bytes(content)
            return resume.load(copy)

    def remove(self, key: str) -> None:
        """Remove the resume state of a run, and what a killed process may have left of it."""
        for place in (self._place(key), f"{self._place(key)}.part"):
            with suppress(FileNotFoundError):
                self.files.rm_file(place)
