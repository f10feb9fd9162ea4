"""How to cite: the software and the paper, as BibTeX."""

from invariance import __version__


def citations() -> tuple[str, ...]:
    """What CITATION.cff says, for those who write papers."""
    return (_SOFTWARE.replace("VERSION", __version__), _PAPER)


_SOFTWARE = """\
@software{invariance,
  title   = {invariance: invariant risk minimisation, complete and measured},
  author  = {{The invariance developers}},
  version = {VERSION},
  year    = {2026},
  license = {BSD-3-Clause}
}"""

_PAPER = """\
@inproceedings{zhang2023missing,
  title     = {What Is Missing in {IRM} Training and Evaluation? {Challenges} and Solutions},
  author    = {Zhang, Yihua and Sharma, Pranay and Ram, Parikshit and Hong, Mingyi and Varshney, Kush and Liu, Sijia},
  booktitle = {International Conference on Learning Representations},
  year      = {2023}
}"""
