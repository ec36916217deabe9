"""The controls of an explorer, with their labels in one column, and its line of text that a screen reader announces."""

import html

import ipywidgets as widgets

FLUSH = "2px 0"  # above and below; a margin at the sides would let a widget of full width run over


def labelled(controls: dict[str, widgets.ValueWidget]) -> list[widgets.ValueWidget]:
    """Return the controls with their labels, aligned in one column of labels and one of controls."""
    for name, control in controls.items():
        control.description = control.description or name.replace("_", " ")
    longest = max((len(control.description) for control in controls.values()), default=0)
    for control in controls.values():
        control.style.description_width = f"{longest}ch"
        control.layout.width, control.layout.margin = "min(100%, 36em)", FLUSH
    return list(controls.values())


def status(sentence: str) -> str:
    """Return ``sentence`` as HTML that a screen reader announces when it changes."""
    return f'<div role="status">{html.escape(sentence, quote=False)}</div>'
