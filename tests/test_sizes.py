"""Files and functions stay small enough to read in one sitting."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
MOST_LINES, MOST_FUNCTION_LINES = 350, 60


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_are_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, node.name
