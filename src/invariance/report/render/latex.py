"""Artefacts as LaTeX: booktabs tables that plain pdflatex typesets, whatever the names in them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from invariance.core.artefacts import Artefact, Figure, Formula, Lines
from invariance.core.text import clean
from invariance.report.render.formulas import as_latex
from invariance.report.render.sparkline import BARS
from invariance.report.render.text_tables import TextTable, text_tables

LONG = 40
"""Characters beyond which a cell is broken into lines."""
ROWS = 62
"""Lines of tables that fit onto a page."""
ACROSS, SPACE, PAD = 84, 1.5, "3pt"
"""Characters that fit beside each other, those that the space between two columns is worth, and that space."""
UNBROKEN = 12
"""Characters of a word that is never broken in a narrow column."""
WORD_PARTS = re.compile(r".{1,6}")
FITTING = r"width=\linewidth,height=0.7\textheight,keepaspectratio"
"""A picture's size: the caption and the notes below it stay on its page."""
PACKAGES = r"\usepackage{amsmath,amssymb,array,booktabs,graphicx,longtable}"


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


SYMBOLS = {sign: f"{{}}{command}" if command[0] in "^_" else command for sign, command in MATHS.items()}
"""In a formula a raised sign may follow a raised letter."""


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
    """A floating table, or a figure with the file of its picture; a table that no page holds goes over several.

    The paper's own number is in the label and not in the caption: a document numbers its tables itself. The preamble
    needs :data:`PACKAGES`.
    """
    if isinstance(artefact, Figure) and picture:
        return _float("figure", artefact, [f"  \\includegraphics[{FITTING}]{{{picture}}}"])
    tables = text_tables(artefact, _fits)
    if sum(map(_height, tables)) > ROWS:
        return "\n".join(
            (*(_long(artefact, table, first=not i) for i, table in enumerate(tables)), _below(artefact, tables))
        )
    return _float("table", artefact, [*(line for table in tables for line in _tabular(table)), *_footnotes(tables)])


def _fits(table: TextTable) -> bool:
    """Whether a table is no wider than the text."""
    return sum(_widest(table, column) + SPACE for column in range(table.width)) <= ACROSS


def _widest(table: TextTable, column: int) -> int:
    return max((len(row[column]) for row in (table.header[-1], *table.rows)), default=0)


def _height(table: TextTable) -> int:
    """Lines that a table takes: those of its rows, with long cells broken, and of its headings."""
    rows = sum(max(-(-len(cell) // LONG) for cell in row) for row in table.rows)
    return rows + len(table.header) + 2


def _caption(artefact: Artefact) -> str:
    """Title and caption, in which the formulas on the axes of a figure are typeset."""
    title = artefact.title[:1].upper() + artefact.title[1:]
    text = _sentences([title, artefact.caption])
    for panel in artefact.panels if isinstance(artefact, Figure) else ():
        if isinstance(panel, Lines) and isinstance(panel.y_label, Formula):
            text = text.replace(escape(str(panel.y_label)), _typeset(panel.y_label))
    return text


def _float(kind: str, artefact: Artefact, body: Iterable[str]) -> str:
    lines = [f"% needs {PACKAGES}", f"\\begin{{{kind}}}[htbp]", r"  \centering"]
    lines += [f"  \\caption{{{_caption(artefact)}}}", f"  \\label{{{kind}:{_label(artefact.name)}}}", *body]
    if small := _sentences([*artefact.notes, artefact.provenance]):
        lines.append(f"  \\par\\smallskip{{\\footnotesize {small}\\par}}")
    return "\n".join([*lines, f"\\end{{{kind}}}"]) + "\n"


def _long(artefact: Artefact, table: TextTable, *, first: bool) -> str:
    """A table over several pages, with its headings on each; only the first part has the caption and counts."""
    lines = [f"% needs {PACKAGES}", rf"{{\footnotesize\setlength{{\tabcolsep}}{{{PAD}}}"]
    lines.append(f"\\begin{{longtable}}{{@{{}}{''.join(_shares(table))}@{{}}}}")
    if first:
        lines.append(f"  \\caption{{{_caption(artefact)}}}\\label{{table:{_label(artefact.name)}}}\\\\")
    if table.title:
        title = f"\\textbf{{{escape(table.title)}}}"
        lines.append(f"  \\multicolumn{{{table.width}}}{{@{{}}l@{{}}}}{{{title}}}\\\\")
    lines += [r"  \toprule", *_headings(table), r"  \midrule", r"  \endhead", r"  \bottomrule", r"  \endfoot"]
    lines += [f"  {' & '.join(_breakable(cell) for cell in row)} \\\\" for row in table.rows]
    lines.append(r"\end{longtable}}" if first else r"\end{longtable}\addtocounter{table}{-1}}")
    return "\n".join(lines) + "\n"


def _below(artefact: Artefact, tables: Sequence[TextTable]) -> str:
    """What stands beneath a table of several pages."""
    small = _sentences([*artefact.notes, artefact.provenance])
    return "\n".join((*_footnotes(tables), f"{{\\footnotesize {small}\\par}}")) + "\n"


def _footnotes(tables: Sequence[TextTable]) -> Iterator[str]:
    """Of all parts of a table, each once."""
    for mark, note in dict.fromkeys(footnote for table in tables for footnote in table.footnotes):
        yield f"  {{\\footnotesize {{[}}{mark}{{]}} {escape(note)}\\par}}"


def _shares(table: TextTable) -> Iterator[str]:
    """Columns that share the width of the text by the square roots of the lengths of their cells."""
    roots = [max(3.0, min(_widest(table, column), 4 * LONG)) ** 0.5 for column in range(table.width)]
    for root, numeric in zip(roots, table.numeric, strict=True):
        side = r"\raggedleft" if numeric else r"\raggedright"
        share = f"{root / sum(roots):.4f}"
        yield rf">{{{side}\arraybackslash}}p{{\dimexpr {share}\linewidth-2\tabcolsep\relax}}"


def _breakable(text: str) -> str:
    """A cell in which long words may be broken anywhere, where its column has a width; a formula is typeset."""
    if isinstance(text, Formula):
        return _typeset(text)
    words = [WORD_PARTS.findall(word) if len(word) > UNBROKEN else [word] for word in text.split(" ")]
    return " ".join(r"\allowbreak{}".join(map(escape, parts)) for parts in words)


def _typeset(formula: Formula) -> str:
    return f"${as_latex(clean(formula), SYMBOLS)}$"


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
    yield rf"  {{\footnotesize\setlength{{\tabcolsep}}{{{PAD}}}%"
    yield r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    yield f"  \\begin{{tabular}}{{@{{}}{''.join(_columns(table))}@{{}}}}"
    yield r"    \toprule"
    yield from _headings(table)
    yield r"    \midrule"
    for row in table.rows:
        yield f"    {' & '.join(map(_breakable, row))} \\\\"
    yield r"    \bottomrule"
    yield r"  \end{tabular}}}"
    yield r"  \par"


def _columns(table: TextTable) -> Iterator[str]:
    """Numbers to the right, words to the left, many words on several lines."""
    for column, numeric in enumerate(table.numeric):
        long = max((len(row[column]) for row in table.rows), default=0) > LONG
        yield "r" if numeric else r">{\raggedright\arraybackslash}p{5cm}" if long else "l"


def _headings(table: TextTable) -> Iterator[str]:
    for level in range(len(table.header)):
        yield from _header(table, level)


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
