"""A lesson is cut down to what its questions and explorers need; no browser is needed to see that."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .needed import EMPTY, explorers_only, questions_and_explorers

CELLS = {
    "imports": "import torch\nfrom torch import nn as layers",
    "other": "import numpy",
    "net": "net = layers.Linear(2, 2)",
    "train": "train(net.weight)",  # may change it
    "print": "print('nothing')",
    "kept": "runs[0].loss = net",
    "runs": "runs = [net]",
    "late": "late = 3",
}


def notebook(*order, **tagged):
    made = [new_code_cell(CELLS[name]) for name in order]
    made += [new_code_cell(source, metadata={"tags": [tag]}) for tag, source in tagged.items()]
    return new_notebook(cells=[new_markdown_cell("# Title"), *made])


def sources(made):
    return [cell.source for cell in made.cells[1:]]


def test_what_an_explorer_needs_stays_what_is_changed_in_place_too_and_the_rest_is_emptied():
    needed = ("net", "train", "runs", "kept")
    given = notebook("imports", "other", *needed, "print", explorer="explore(runs)")
    given.cells.append(new_code_cell(CELLS["late"]))
    kept = [CELLS[name] for name in needed]
    assert sources(explorers_only(given)) == [CELLS["imports"], EMPTY, *kept, EMPTY, "explore(runs)", EMPTY]
    assert sources(given)[1] == "import numpy"  # the notebook itself is as it was


def test_so_is_a_prediction_of_one_cell_unless_more_of_it_is_used():
    ask = 'with predict("Why?", ["a", "b"]) as guess:\n    {} = net(1)\n    guess.truth = "a" if kept else "b"'
    asks = "with predict('Why?', ['a', 'b']) as guess:\n    guess.truth = guess.choices[0]"
    given = notebook("imports", "net")
    given.cells += [new_code_cell(ask.format(name)) for name in ("lost", "kept")]
    given.cells += notebook(explorer="explore(kept)").cells[1:]
    assert sources(questions_and_explorers(given))[2:4] == [asks, ask.format("kept")]
    assert sources(explorers_only(given))[2:4] == [EMPTY, ask.format("kept")]


def test_a_prediction_is_answered_by_its_own_first_choice():
    given = notebook("imports", "net", predict='guess = predict("Why?", ["a", "b"])\nlong = net(1)')
    binds = "import torch\nguess = 3"  # what the explorer uses
    assert sources(questions_and_explorers(notebook("net", predict=binds, explorer="torch")))[1] == binds
    *before, last = sources(questions_and_explorers(given))
    assert before == [EMPTY, EMPTY]
    assert last == "guess = predict('Why?', ['a', 'b'])\nguess.reveal(guess.choices[0] if guess.choices else 1)"
    assert sources(explorers_only(given)) == [EMPTY] * 3
