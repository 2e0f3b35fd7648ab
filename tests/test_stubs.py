"""The typed stubs say what the compiled module has: same names, same parameters."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pagewise
from pagewise import _core

ROOT = Path(__file__).parents[1]
STUB = Path(pagewise.__file__).with_name("_core.pyi")


def stub_functions() -> dict[str, ast.FunctionDef]:
    body = ast.parse(STUB.read_text()).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def test_names_agree() -> None:
    classes = {
        node.name for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)
    }
    stubbed = set(stub_functions()) | classes
    compiled = {name for name in vars(_core) if not name.startswith("_")}
    assert stubbed == compiled


def test_parameters_agree() -> None:
    for name, node in stub_functions().items():
        signature = inspect.signature(getattr(_core, name))
        kinds = {
            parameter.name: (parameter.kind, parameter.default is not inspect.Parameter.empty)
            for parameter in signature.parameters.values()
        }
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = len(plain) - len(arguments.defaults)
        stubbed = {
            argument.arg: (inspect.Parameter.POSITIONAL_OR_KEYWORD, rank >= defaults)
            for rank, argument in enumerate(plain)
        }
        stubbed |= {
            argument.arg: (inspect.Parameter.KEYWORD_ONLY, default is not None)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        }
        assert kinds == stubbed, name


def test_the_package_is_typed_and_lists_its_names() -> None:
    listed = [name for name in dir(pagewise) if not re.fullmatch(r"__\w+__", name)]
    assert listed == sorted(pagewise.__all__) == pagewise.__all__
    assert not any(inspect.ismodule(getattr(pagewise, name)) for name in listed)
    assert pagewise.__version__ == _core.version()
    for name in pagewise.__all__:
        function = getattr(pagewise, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            kinds = [parameter.annotation for parameter in signature.parameters.values()]
            assert inspect.Signature.empty not in (*kinds, signature.return_annotation), name


def test_the_package_exports_its_interface_and_nothing_else() -> None:
    source = (
        "import inspect, pagewise, pagewise.cli\n"
        "from pagewise import *\n"
        "starred = {name for name in globals() if not name.startswith('_')}\n"
        "assert starred == {*pagewise.__all__, 'inspect', 'pagewise'}, starred\n"
        "private = [name for name in dir(pagewise) if name.startswith('_') and name[:2] != '__']\n"
        "assert not private and 'cli' not in dir(pagewise) and '_core' not in dir(pagewise)\n"
        "assert not hasattr(pagewise, 'import_module')\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=300)


def test_every_exported_name_is_documented() -> None:
    document = (ROOT / "docs" / "python.md").read_text()
    named = re.findall(r"^\| `(\w+)", document, re.MULTILINE)
    assert sorted(named) == pagewise.__all__, "docs/python.md: a row for each name of the interface"
    for name in pagewise.__all__:
        assert inspect.getdoc(getattr(pagewise, name)), name
    for name in stub_functions():
        assert inspect.getdoc(getattr(_core, name)), name
