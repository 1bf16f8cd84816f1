import pytest

from capsim.report.named import named


@pytest.mark.parametrize(
    ("stated", "name"), [("h200", "h200"), ("/somewhere/my-gpu.yaml", "my-gpu"), ("qwen2.5-7b", "qwen2.5-7b")]
)
def test_a_file_is_named_without_its_folder(stated: str, name: str) -> None:
    assert named({"gpu": stated}, "gpu") == name
