"""Tables and figures as text, LaTeX, Markdown, CSV, charts and pictures."""
