"""A notebook that asks for what the installed package does not have is told that it is newer."""

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from residual_course.newer import tell


def test_what_is_missing_is_told_in_a_sentence_and_of_other_packages_as_ever():
    shell = InteractiveShell()
    shell.set_custom_exc((ImportError,), tell)
    for cell in (
        "import residual_edu.no",
        "from residual_edu import no",
        "import numpy.no",
        "raise ImportError('residual_')",
    ):
        with capture_output() as said:
            shell.run_cell(cell)
        is_ours = " residual_edu" in cell
        told = "unless it is misspelled, this notebook is newer than the installed residual_edu"
        assert (told in said.stdout) == ("restart the kernel." in said.stdout) == is_ours
        assert ("Traceback" in said.stdout) != is_ours
