"""A notebook that asks for what the installed package does not have is told that it is newer."""

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from residual_course.newer import tell


def test_what_is_missing_is_told_in_a_sentence_and_of_other_packages_as_ever():
    shell, ours = InteractiveShell(), ("import residual_edu.no", "from residual_edu import no")
    shell.set_custom_exc((ImportError,), tell)
    for cell in (*ours, "import numpy.no", "raise ImportError('residual_')"):
        with capture_output() as said:
            shell.run_cell(cell)
        assert ("Traceback" in said.stdout) == (cell not in ours)
        assert ("this notebook is newer than the installed residual_edu" in said.stdout) == (cell in ours)
