import diffmask


def test_every_public_name_can_be_imported_and_listed():
    assert sorted(diffmask.__all__) == list(diffmask.__all__) == dir(diffmask)
    assert all(getattr(diffmask, name) is not None for name in diffmask.__all__)


def test_importing_diffmask_alone_imports_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, diffmask; print([m for m in ('torch', 'transformers', 'accelerate') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed():
    from importlib.resources import files

    assert files("diffmask").joinpath("py.typed").is_file()
