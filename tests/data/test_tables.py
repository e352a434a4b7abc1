import base64
import io

import pytest
from PIL import Image

from tests.data.files import entry, row, write_manifest, write_picture, write_rows
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


def table(path, *rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["\t".join(names), *("\t".join(str(row.get(name, "")) for name in names) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_row_may_take_the_picture_of_a_later_one(tmp_path):
    data = base64.b64encode(png()).decode()
    rows = ({"index": 5, "image": 7, "question": "First?"}, {"index": 7, "image": data, "question": "Last?"})
    first, last = load_samples(table(tmp_path / "t.tsv", *rows))
    assert first.images == last.images
    assert first.images[0].width == 40


def test_a_picture_in_the_table_wins_over_its_name_and_a_row_may_have_several(tmp_path):
    one, two = (base64.b64encode(png((size, 30))).decode() for size in (40, 50))
    rows = (
        {"index": 0, "image": one, "image_path": "lost.png", "question": "One?"},
        {"index": 1, "image": f"['{one}', '{two}']", "image_path": "['a.png', 'b.png']", "question": "Two?"},
    )
    single, double = load_samples(table(tmp_path / "t.tsv", *rows))
    assert [image.width for image in single.images] == [40]
    assert [image.width for image in double.images] == [40, 50]


def test_a_limit_reads_no_further_than_it_has_to(tmp_path):
    data = base64.b64encode(png()).decode()
    path = table(tmp_path / "t.tsv", *({"index": n, "image": data, "question": "Which?"} for n in range(3)))
    with path.open("a") as file:
        file.write("3\tlost.png\tWhich?\n")
    assert len(load_samples(path, limit=3)) == 3
    with pytest.raises(UserError, match="no such picture"):
        load_samples(path)


def test_a_test_manifest_as_released_names_its_metric_as_unused(tmp_path):
    write_picture(tmp_path / "data" / "a.png")
    prompt = "<image>Which?\n(A) red\n(B) blue\n"
    write_rows(tmp_path / "data" / "rows.jsonl", row(prompt=prompt, reward_model={"ground_truth": "B"}))
    released = entry(reward_fn=[], unused_reward_fn=["em_score_mcq"])
    (sample,) = load_samples(write_manifest(tmp_path, vstar_bench=released))
    assert sample.choices == {"A": "red", "B": "blue"}
