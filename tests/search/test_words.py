import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlagent.search.passages import Document, Section, count_words, passages
from vlagent.search.sentences import sentence_spans, sentences
from vlagent.search.words import fold, index_words, query_words, stems


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Ångström", "angstrom"),
        ("CAFÉ", "cafe"),
        ("ＡＢＣ", "abc"),
        ("Straße", "strasse"),
        ("Łódź", "lodz"),
        ("İzmir", "izmir"),
    ],
)
def test_case_accents_and_width_do_not_matter(text: str, same: str) -> None:
    assert fold(text) == same


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("東京の国立競技場です", "国立競技場"),
        ("北京故宫博物院位于中国", "故宫博物院"),
        ("서울은 한국의 수도이다", "서울"),
        ("กรุงเทพมหานครเป็นเมืองหลวง", "เมืองหลวง"),
        ("Le café est fermé", "CAFE"),
        ("ガギグ", "ｶﾞｷﾞ"),
        ("水道水", "水"),
        ("हिन्दी भाषा", "भाषा"),
    ],
)
def test_every_word_of_a_query_is_among_the_words_of_a_text_that_holds_it(document: str, query: str) -> None:
    assert query_words(query)
    assert set(query_words(query)) <= set(index_words(document))


def test_vowel_signs_of_thai_and_hindi_stay_on_their_letters() -> None:
    assert query_words("ที่ดี") == ["ที่ดี"]
    assert index_words("हिन्दी") == ["हिन्दी"]


def test_function_words_are_dropped_unless_there_is_nothing_else() -> None:
    assert query_words("Who wrote the Iliad?") == ["wrote", "iliad"]
    assert query_words("The Who") == ["the", "who"]


def test_english_endings_do_not_matter() -> None:
    assert stems(["founded", "bridges"]) == stems(["founding", "bridge"])


@given(st.text())
def test_any_text_gives_words_without_white_space(text: str) -> None:
    for word in (*index_words(text), *query_words(text)):
        assert word
        assert word.split() == [word]


def test_abbreviations_initials_and_decimals_end_no_sentence() -> None:
    text = "Dr. Smith met J. R. Jones, e.g. in May. It was 3.5 km away! Was it? Yes."
    assert sentences(text) == ["Dr. Smith met J. R. Jones, e.g. in May.", "It was 3.5 km away!", "Was it?", "Yes."]


def test_chinese_and_japanese_sentences_need_no_space() -> None:
    assert sentences("東京です。大阪です！「はい。」次") == ["東京です。", "大阪です！", "「はい。」", "次"]


def test_list_items_and_empty_lines_end_sentences_but_wrapped_lines_do_not() -> None:
    assert sentences("A wrapped\nline\n\nNext\n- one\n- two") == ["A wrapped line", "Next", "- one", "- two"]


@given(st.text())
def test_sentence_spans_are_in_order_and_lose_only_white_space(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(a < b for a, b in spans)


def _cut(text: str, words: int, **about: bool) -> list[str]:
    return [p.text for p in passages(Document("t", [Section(text)], **about), words)]


def test_passages_are_cut_on_sentences_and_overlap() -> None:
    text = " ".join(f"Sentence number {i} has six words." for i in range(40))
    cut = _cut(text, 60)
    assert all(count_words(p) <= 60 for p in cut)
    assert all(p.endswith(".") and p.startswith("Sentence") for p in cut)
    assert cut[0].split(". ")[-1].rstrip(".") in cut[1]


def test_a_paragraph_border_past_half_the_room_is_preferred() -> None:
    first, second = "One two three four five six. " * 6, "Seven eight nine ten eleven twelve. " * 6
    assert _cut(first.strip() + "\n\n" + second, 60)[0] == first.strip()


def test_a_record_that_is_a_passage_already_stays_whole_up_to_twice_the_size() -> None:
    text = "One two three four five. " * 18
    assert len(_cut(text, 60)) > 1
    assert len(_cut(text, 60, whole=True)) == 1


@given(st.text(max_size=400), st.integers(10, 40))
def test_no_letter_of_a_text_is_lost_by_cutting(text: str, words: int) -> None:
    joined = "".join(_cut(text, words))
    printable = {c for c in text if not c.isspace() and c.isprintable()}
    assert printable <= set(joined)


def test_a_million_letters_without_any_border_are_cut_too() -> None:
    assert all(len(p) <= 16 * 181 for p in _cut("x" * 1_000_000, 180))
