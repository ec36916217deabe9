import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.execute import WIDGET, CellFailed, execute, joined, normalise_output


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def test_neighbouring_pieces_of_a_stream_are_joined_and_their_order_kept():
    picture = new_output("display_data", {"text/plain": "p"})
    pieces = [stream("a"), stream("b"), stream("c", "stderr"), picture, picture, stream("d"), stream("e")]
    whole = joined(pieces)
    assert [output.get("text") for output in whole] == ["ab", "c", None, None, "de"]


def test_addresses_colours_and_widgets_go_and_numbers_and_pictures_stay():
    text, kept = "\x1b[0;31m<object at 0x7f12ab34cd>\x1b[0m 0xff", "<object at 0x...> 0xff"
    assert normalise_output(stream(text)).text == kept
    assert normalise_output(new_output("error", ename="E", evalue="", traceback=[text])).traceback == [kept]
    picture = "0x1234567890abcdef"  # base64 may happen to look like an address
    output = new_output("display_data", {WIDGET: {"model_id": "1"}, "image/png": picture, "text/plain": text})
    assert normalise_output(output).data == {"image/png": picture, "text/plain": kept}


def test_cells_run_in_the_folder_on_the_cpu_with_one_thread(tmp_path):
    code = "import os; print(os.getcwd(), os.environ['OMP_NUM_THREADS'], os.environ['RESIDUAL_EDU_DEVICE'])"
    notebook, heard = new_notebook(cells=[new_markdown_cell("words"), new_code_cell(code)]), []
    execute(notebook, tmp_path, heard.append)
    assert notebook.cells[1].outputs[0].text.split() == [str(tmp_path.resolve()), "1", "cpu"]
    assert heard == [1, 2]
    nbformat.validate(notebook)
    assert "execution" not in notebook.cells[1].metadata
    assert "widgets" not in notebook.metadata


@pytest.mark.parametrize(
    ("code", "limit", "said"), [("time.sleep(60)", 1, "after 1 seconds"), ("os._exit(1)", 60, "Kernel died")]
)
def test_a_cell_beyond_its_limit_or_that_ends_its_kernel_is_named(tmp_path, code, limit, said):
    cells = [new_markdown_cell("words"), new_code_cell("import os, time"), new_code_cell(code)]
    with pytest.raises(CellFailed, match=f"(?s)^cell 3: [^\\x1b]*{said}[^\\x1b]*$"):
        execute(new_notebook(cells=cells), tmp_path, lambda number: None, limit=limit)
