import base64
import io

import pytest
from PIL import Image

from tests.data.files import write_picture
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError


def png(size=(40, 30)):
    buffer = io.BytesIO()
    Image.new("RGB", size, "blue").save(buffer, "PNG")
    return buffer.getvalue()


def test_a_vlmevalkit_table_gives_options_and_pictures_kept_beside_it(tmp_path):
    data = base64.b64encode(png()).decode()
    path = tmp_path / "bench.tsv"
    path.write_text(
        "index\timage\tquestion\tA\tB\tanswer\tcategory\n"
        f"0\t{data}\tWhich?\tred\tblue\tB\tcolour\n"
        "1\t0\tAnd now?\tred\tblue\tA\tcolour\n"
    )
    first, second = load_samples(path)
    assert (first.id, first.choices, first.answers) == ("bench/0", {"A": "red", "B": "blue"}, ("B",))
    assert first.question == "Which?\nA. red\nB. blue"
    assert first.images[0].width == 40
    assert second.images == first.images
    assert first.extra["category"] == "colour"
    assert len(list((tmp_path / "bench_pictures").iterdir())) == 1


def test_a_vlmevalkit_table_may_name_its_pictures(tmp_path):
    write_picture(tmp_path / "a.png")
    (tmp_path / "bench.tsv").write_text("index\timage_path\tquestion\tanswer\n0\ta.png\tWhich?\tred\n")
    (sample,) = load_samples(tmp_path / "bench.tsv")
    assert (sample.images[0].width, sample.choices, sample.answers) == (64, {}, ("red",))


def test_a_folder_of_parquet_with_picture_bytes_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"id": "p-1", "image": {"bytes": png(), "path": None}, "question": "Which?", "answer": "blue", "kind": "read"},
        {"id": "p-2", "image": {"bytes": png((10, 20)), "path": None}, "question": "Two?", "answer": "2", "kind": "x"},
    ]
    folder = tmp_path / "set"
    folder.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "test-00000.parquet")
    first, second = load_samples(folder)
    assert (first.id, first.source, first.answers, first.extra["kind"]) == ("p-1", "set", ("blue",), "read")
    assert [second.images[0].width, second.images[0].height] == [10, 20]


def test_a_folder_without_parquet_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="holds no"):
        load_samples(tmp_path)
