"""Artefacts as LaTeX: booktabs tables that plain pdflatex typesets, whatever the names in them."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate

from invariance.core.artefacts import Artefact, Figure
from invariance.core.text import clean
from invariance.report.render.sparkline import BARS
from invariance.report.render.text_tables import TextTable, text_tables

LONG = 40
"""Characters beyond which a cell is broken into lines."""
ROWS = 40
"""Lines of a table that fit onto a page."""
PACKAGES = r"\usepackage{amsmath,amssymb,booktabs,graphicx}"


def _pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


SPECIAL = _pairs(r"""
    # \#  $ \$  % \%  & \&  _ \_  { \{  } \}  \ \textbackslash{}  ^ \textasciicircum{}  ~ \textasciitilde{}
    < $<$  > $>$  | $|$  " ''  ` \textasciigrave{}  – --  — ---  … \ldots{}  ‘ `  ’ '  “ ``  ” ''
    ß \ss{}  æ \ae{}  Æ \AE{}  ø \o{}  Ø \O{}  ł \l{}  Ł \L{}  œ \oe{}  Œ \OE{}  ı \i{}  § \S{}  © \copyright{}
""")
SPECIAL |= {bar: rf"\rule{{2pt}}{{{height}pt}}" for height, bar in enumerate(BARS, 1)}
SPECIAL |= {"[": "{[}", "]": "{]}"}  # after \\ a bracket would be read as a length
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0304\u0306\u0307\u030b", "`'^~\"rv=u.H", strict=True))
ACCENTS |= {"\u0327": "c", "\u0328": "k"}
MATHS = _pairs(r"""
    α \alpha  β \beta  γ \gamma  δ \delta  ε \varepsilon  ϵ \epsilon  ζ \zeta  η \eta  θ \theta  ι \iota  κ \kappa
    λ \lambda  μ \mu  µ \mu  ν \nu  ξ \xi  π \pi  ρ \rho  ς \varsigma  σ \sigma  τ \tau  υ \upsilon  φ \varphi
    ϕ \phi  χ \chi  ψ \psi  ω \omega  Γ \Gamma  Δ \Delta  Θ \Theta  Λ \Lambda  Ξ \Xi  Π \Pi  Σ \Sigma  Υ \Upsilon
    Φ \Phi  Ψ \Psi  Ω \Omega  ∑ \sum  ∏ \prod  ∇ \nabla  ∂ \partial  ∞ \infty  √ \surd  ℓ \ell  ‖ \|  ∘ \circ
    ± \pm  − -  × \times  · \cdot  ⊗ \otimes  ⊙ \odot  ° ^\circ  ≤ \le  ≥ \ge  ≠ \ne  ≈ \approx  ≪ \ll  ≫ \gg
    ∈ \in  ∀ \forall  ∃ \exists  → \to  ← \leftarrow  ↦ \mapsto  ⇒ \Rightarrow  ½ \tfrac12  ¼ \tfrac14
    ⁰ ^0  ¹ ^1  ² ^2  ³ ^3  ⁴ ^4  ⁵ ^5  ⁶ ^6  ⁷ ^7  ⁸ ^8  ⁹ ^9  ⁻ ^-  ₀ _0  ₁ _1  ₂ _2  ₃ _3  ₄ _4  ₅ _5  ₑ _e
""")


def escape(text: str) -> str:
    """Text that LaTeX typesets as it reads; a character it has no glyph for becomes its code point."""
    return "".join(map(_character, clean(text)))


def _character(c: str) -> str:
    if c in SPECIAL:
        return SPECIAL[c]
    if c.isascii():
        return c
    if c in MATHS:
        return f"${MATHS[c]}$"
    base, mark = unicodedata.normalize("NFD", c)[:1], unicodedata.normalize("NFD", c)[1:]
    if base.isascii() and base.isalpha() and mark in ACCENTS:
        return f"\\{ACCENTS[mark]}{{{base}}}"
    return f"\\texttt{{U+{ord(c):04X}}}"


def latex(artefact: Artefact, picture: str = "") -> str:
    """Floating tables, as many as it takes pages, or a figure with the file of its picture.

    The preamble needs :data:`PACKAGES`.
    """
    if isinstance(artefact, Figure) and picture:
        return _float("figure", artefact, [f"  \\includegraphics[width=\\linewidth]{{{picture}}}"])
    pages = list(_pages(text_tables(artefact)))
    return "\n".join(
        _float("table", artefact, [line for table in page for line in _tabular(table)], number)
        for number, page in enumerate(pages)
    )


def _float(kind: str, artefact: Artefact, body: Iterable[str], number: int = 0) -> str:
    """A float with its caption, which those after the first only continue."""
    caption = _sentences([f"{artefact.title}, continued"] if number else [artefact.title, artefact.caption])
    lines = [f"% needs {PACKAGES}", f"\\begin{{{kind}}}[htbp]", r"  \centering", f"  \\caption{{{caption}}}"]
    lines += [] if number else [f"  \\label{{{kind}:{_label(artefact.name)}}}"]
    lines += body
    if small := _sentences([*artefact.notes, artefact.provenance]):
        lines.append(f"  \\par\\smallskip\\footnotesize {small}")
    return "\n".join([*lines, f"\\end{{{kind}}}"]) + "\n"


def _pages(parts: Iterable[TextTable]) -> Iterator[list[TextTable]]:
    """Tables that fit onto a page together; one with too many rows goes on on the next."""
    page: list[TextTable] = []
    room = ROWS
    for table in parts:
        for start in range(0, max(len(table.rows), 1), ROWS):
            part = replace(table, rows=table.rows[start : start + ROWS])
            if page and len(part.rows) > room:
                yield page
                page, room = [], ROWS
            page.append(part)
            room -= len(part.rows) + len(part.header) + len(part.footnotes) + 3  # the rest: title and space
    if page:
        yield page


def document(names: Iterable[str]) -> str:
    """A document that shows the named files."""
    body = "\n".join(f"\\input{{{name}}}\n\\clearpage" for name in names)
    return (
        f"\\documentclass{{article}}\n{PACKAGES}\n\\usepackage[margin=2cm]{{geometry}}\n"
        f"\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )


def _tabular(table: TextTable) -> Iterator[str]:
    if table.title:
        yield f"  \\par\\medskip\\textbf{{{escape(table.title)}}}\\par\\smallskip"
    yield r"  {\small\setlength{\tabcolsep}{4pt}%"
    yield r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    yield f"  \\begin{{tabular}}{{@{{}}{''.join(_columns(table))}@{{}}}}"
    yield r"    \toprule"
    for level in range(len(table.header)):
        yield from _header(table, level)
    yield r"    \midrule"
    for row in table.rows:
        yield f"    {' & '.join(map(escape, row))} \\\\"
    yield r"    \bottomrule"
    yield r"  \end{tabular}}}"
    for mark, note in table.footnotes:
        yield f"  \\par{{\\footnotesize {{[}}{mark}{{]}} {escape(note)}\\par}}"


def _columns(table: TextTable) -> Iterator[str]:
    """Numbers to the right, words to the left, many words on several lines."""
    for column, numeric in enumerate(table.numeric):
        long = max((len(row[column]) for row in table.rows), default=0) > LONG
        yield "r" if numeric else r"p{6cm}" if long else "l"


def _header(table: TextTable, level: int) -> Iterator[str]:
    """A line of headings, with a rule under each that stands over several columns."""
    spans = table.spans(level)
    cells = [escape(text) if n == 1 else f"\\multicolumn{{{n}}}{{c}}{{{escape(text)}}}" for text, n in spans]
    yield f"    {' & '.join(cells)} \\\\"
    ends = accumulate(n for _, n in spans)
    rules = [
        f"\\cmidrule(lr){{{end - n + 1}-{end}}}" for (text, n), end in zip(spans, ends, strict=True) if n > 1 and text
    ]
    if rules:
        yield f"    {' '.join(rules)}"


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(escape(part) if part.endswith((".", "!", "?")) else f"{escape(part)}." for part in parts if part)


def _label(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-:") else "-" for c in name)
