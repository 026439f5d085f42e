import base64
import io
import json
import threading
import time
import zlib

import pytest
from PIL import Image

from diffmask.explaining.certify import certify
from diffmask.explaining.explain import explain
from diffmask.report.plain import record
from diffmask.serve.limits import Limits
from diffmask.serve.service import DECODED, Service
from serve_answers import SAME, same

from .conftest import asking, picture

TEXT = "A fast, funny, highly enjoyable movie."
TEXTS = [TEXT, "Dull.", "Not bad at all, though it drags on and on in the middle.", "<b>fine</b>"]


def explained(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["explanations"]


@pytest.mark.parametrize("depth", [-1, 0, "bert.encoder.layer.0"])
@pytest.mark.parametrize("certified", [False, True])
def test_a_text_is_explained_as_offline(ask, embedded, depth, certified):
    (found,) = explained(ask("POST", "/explain", json={"text": TEXT, "depth": depth, "certify": certified}))
    (offline,) = (certify if certified else explain)(embedded, [TEXT], depth=depth)
    assert {name: found[name] for name in SAME} == {name: record(offline, TEXT)[name] for name in SAME}
    assert found["certified"] is certified and found["cut"] == 0 and found["at_depths"] is None


def test_several_texts_are_explained_in_their_order(ask, embedded):
    found = explained(ask("POST", "/explain", json={"texts": TEXTS}))
    assert [each["text"] for each in found] == TEXTS
    for each, offline in zip(found, explain(embedded, TEXTS), strict=True):
        same(each, record(offline, each["text"]))


def test_concurrent_requests_share_passes_and_get_the_offline_answers(embedded):
    asked = [{"text": text, "depth": depth} for text in TEXTS for depth in (0, 3)] * 3
    with asking(embedded, Limits(wait=0.1)) as ask:
        passes = []
        work = ask.service.queue._work
        ask.service.queue._work = lambda wanted, examples: passes.append(len(examples)) or work(wanted, examples)
        answers = ask.all([("POST", "/explain", {"json": each}) for each in asked])
    assert sum(passes) == len(asked) and len(passes) <= 4
    for question, answer in zip(asked, answers, strict=True):
        (found,) = explained(answer)
        (offline,) = explain(embedded, [question["text"]], depth=question["depth"])
        same(found, record(offline, question["text"]))


def test_every_depth_comes_with_what_was_measured_there(ask, embedded):
    (found,) = explained(ask("POST", "/explain", json={"text": TEXT, "depth": "all"}))
    assert [each["depth"] for each in found["at_depths"]] == [0, 1, 2, 3]
    for depth, each in enumerate(found["at_depths"]):
        (offline,) = explain(embedded, [TEXT], depth=depth)
        assert each["kept"] == offline.kept.tolist()
        assert each["verification"]["divergence"] == pytest.approx(offline.verification.divergence, abs=1e-5)
    assert found["depth"] == 3 and found["kept"] == found["at_depths"][3]["kept"]


def test_a_wider_margin_keeps_fewer_and_a_narrow_one_more(ask):
    def kept(margin):
        question = {"text": TEXTS[2], "certify": True, "margin": margin}
        (found,) = explained(ask("POST", "/explain", json=question))
        assert found["verification"]["margin"] == margin and found["verification"]["within_margin"]
        return sum(found["kept"])

    assert kept(1e-5) > kept(0.1) > kept(3.0)


def test_a_margin_without_repair_only_judges(ask, embedded):
    (found,) = explained(ask("POST", "/explain", json={"text": TEXT, "margin": 1e-9}))
    (offline,) = explain(embedded, [TEXT])
    assert found["kept"] == offline.kept.tolist()
    assert found["verification"]["margin"] == 1e-9 and not found["verification"]["within_margin"]


def test_without_a_check_nothing_is_claimed(ask):
    (found,) = explained(ask("POST", "/explain", json={"text": TEXT, "verify": False}))
    assert found["verification"] is None and found["prediction"] is None


def test_what_is_cut_off_is_said(ask):
    (found,) = explained(ask("POST", "/explain", json={"text": "good " * 200}))
    assert found["cut"] == 200 + 2 - 128 and len(found["units"]) == 128


def test_a_pair_of_texts_is_explained(ask, embedded):
    (found,) = explained(ask("POST", "/explain", json={"text": ["Good film.", "Bad film."]}))
    (offline,) = explain(embedded, [("Good film.", "Bad film.")])
    assert found["text"] == ["Good film.", "Bad film."] and found["units"] == list(offline.units)


def test_nothing_is_remembered_of_a_text(ask, embedded):
    ask("POST", "/explain", json={"texts": TEXTS})
    assert not embedded.task._seen


def test_health_and_info_say_what_is_served(ask):
    health = ask("GET", "/health").json()
    assert health == {"model": "BertForSequenceClassification (sentiment)", "ready": True, "queue": 0}
    info = ask("GET", "/info").json()
    assert info["takes"] == "text" and info["labels"] == ["negative", "positive"] and info["margin"] == 0.1
    assert (
        info["limits"]["batch"] == 32 and len(info["fit"]) == len(info["depths"]) == 4 and "torch" in info["versions"]
    )


def test_the_schema_describes_question_and_answer(ask):
    schema = ask("GET", "/openapi.json").json()
    question = schema["components"]["schemas"]["Question"]
    assert question["examples"][0] == {"text": TEXT} and set(schema["paths"]["/explain"]["post"]["responses"]) >= {
        "200",
        "413",
        "422",
        "503",
        "504",
    }
    for example in question["examples"]:
        assert explained(ask("POST", "/explain", json=example))


WRONG = {
    "no example": ({}, "give one of text, texts and image, got none"),
    "two examples": ({"text": "a", "image": "b"}, "got text and image"),
    "an empty text": ({"text": " "}, "a text is empty"),
    "a number": ({"text": 3}, "text: Input should be a valid string"),
    "a number in a list": ({"texts": ["a", 3]}, "texts.1: Input should be a valid string"),
    "no texts": ({"texts": []}, "texts: List should have at least 1 item"),
    "too many texts": ({"texts": ["a"] * 33}, "33 texts are more than the 32 of one request"),
    "a long text": ({"text": "x" * 20_001}, "a text has 20001 characters, more than the 20000"),
    "half a character": (b'{"text": "\\ud800"}', "half a character"),
    "another depth": ({"text": "a", "depth": 4}, "depth 4 does not exist"),
    "an unknown depth": ({"text": "a", "depth": "top"}, "no depth named 'top'"),
    "a margin of nothing": ({"text": "a", "margin": 0}, "margin: Input should be greater than 0"),
    "no number": (b'{"text": "a", "margin": NaN}', "margin: Input should be a finite number"),
    "an unknown setting": ({"text": "a", "margn": 1}, "margn: Extra inputs are not permitted"),
    "a word for a switch": ({"text": "a", "certify": "yes"}, "certify: Input should be a valid boolean"),
    "an image for a text model": ({"image": "AAAA"}, "this model reads texts"),
    "no base64": ({"image": "??"}, "image: this is not base64"),
    "no object": ([1], "send a JSON object"),
    "nothing": (b"", "send a JSON object"),
    "half an object": (b'{"text": ', "the request is no JSON"),
    "no UTF-8": (b'{"text": "\xff"}', "send JSON in UTF-8"),
    "deep brackets": (b"[" * 200_000, "send JSON"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_sentence(ask, name):
    given, sentence = WRONG[name]
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    answer = ask("POST", "/explain", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and sentence in answer.json()["error"]
    assert len(answer.content) < 500 and "Traceback" not in answer.text


def test_paths_and_methods_that_are_not_there_say_which_are(ask):
    assert ask("GET", "/nowhere").status_code == 404 and "/explain" in ask("GET", "/nowhere").json()["error"]
    assert ask("GET", "/explain").status_code == 405
    assert ask("POST", "/explain", content=b'{"text": "a"}', headers={"Content-Type": "text/plain"}).status_code == 422


@pytest.fixture
def slow(monkeypatch):
    """Let no explanation be finished before the door opens, and write down what was to be explained."""
    door = threading.Event()
    door.seen = []

    def wait_then_explain(fitted, examples, **more):
        door.seen += examples
        door.wait(10)
        return explain(fitted, examples, **more)

    monkeypatch.setattr("diffmask.serve.service.explain", wait_then_explain)
    yield door
    door.set()


def test_an_answer_that_takes_too_long_is_given_up(embedded, slow):
    with asking(embedded, Limits(seconds=0.2)) as ask:
        answer = ask("POST", "/explain", json={"text": TEXT})
        slow.set()
        assert answer.status_code == 504 and "no answer within 0.2 seconds" in answer.json()["error"]
        wanted = ask.service.wanted(-1, True, False, None)
        assert ask.service.submit(wanted, [TEXT]).result(60)[0]["text"] == TEXT  # it goes on, however busy the machine


def test_what_was_given_up_while_it_waited_is_never_explained(embedded, slow):
    with asking(embedded, Limits(seconds=0.2, batch=1, wait=0.0)) as ask:
        wanted = ask.service.wanted(-1, True, False, None)
        ask.service.submit(wanted, ["first"])
        assert ask("POST", "/explain", json={"text": TEXT}).status_code == 504
        last = ask.service.submit(wanted, ["last"])
        slow.set()
        assert last.result(60) and slow.seen == ["first", "last"]


def test_when_the_queue_is_full_a_client_is_told_to_come_back(embedded, slow):
    with asking(embedded, Limits(seconds=60.0, queue=4, examples=4, batch=1, wait=0.0)) as ask:
        threading.Timer(0.3, slow.set).start()
        answers = ask.all([("POST", "/explain", {"json": {"text": TEXT}})] * 12)
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {200, 503} and 4 <= codes.count(200) <= 5
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["Retry-After"] == "1" and "try again" in refused.json()["error"]
        assert ask("GET", "/health").json()["queue"] == 0


def test_a_failure_inside_is_not_shown(ask, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("secret /home/me/model")

    monkeypatch.setattr("diffmask.serve.service.explain", fail)
    answer = ask("POST", "/explain", json={"text": TEXT})
    assert answer.status_code == 500 and "secret" not in answer.text and "its log says why" in answer.json()["error"]
    assert "secret" in caplog.text


@pytest.fixture(scope="module")
def seeing(vision):
    with asking(vision) as ask:
        yield ask


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_an_image_is_explained_as_offline_however_it_is_sent(seeing, tmp_path, form):
    content = picture(form=form)
    (tmp_path / "image").write_bytes(content)
    (offline,) = explain(seeing.service.fitted, [tmp_path / "image"], depth=1)
    encoded = base64.b64encode(content).decode()
    answers = [
        seeing("POST", "/explain", json={"image": encoded, "depth": 1}),
        seeing("POST", "/explain", json={"image": f"data:image/png;base64,{encoded}", "depth": 1}),
        seeing("POST", "/explain/image", files={"image": content}, data={"settings": '{"depth": 1}'}),
    ]
    for answer in answers:
        (found,) = explained(answer)
        same(found, record(offline, ""))
        assert found["grid"] == [3, 5] and found["text"] is None


def test_the_live_page_is_sent_its_picture_as_the_model_saw_it(seeing):
    entry = seeing("POST", "/entry", json={"image": base64.b64encode(picture()).decode()}).json()
    shown = Image.open(io.BytesIO(base64.b64decode(entry["picture"].partition(",")[2])))
    assert shown.size == (40, 30) and entry["grid"] == [3, 5]


def test_only_a_few_images_are_decoded_at_the_same_time(vision, monkeypatch):
    decode, busy, most = Service.image, [], []

    def watched(self, content):
        busy.append(1)
        most.append(len(busy))
        time.sleep(0.05)
        busy.pop()
        return decode(self, content)

    monkeypatch.setattr(Service, "image", watched)
    with asking(vision) as ask:
        answers = ask.all([("POST", "/explain/image", {"files": {"image": picture()}})] * 8)
    assert all(explained(answer) for answer in answers) and len(most) == 8 and max(most) <= DECODED


def bomb(width, height):
    """A picture that says how large it is and holds nothing."""
    head = bytearray(picture(2, 2))
    head[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    head[29:33] = zlib.crc32(bytes(head[12:29])).to_bytes(4, "big")
    return bytes(head)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (bomb(30_000, 30_000), "pixels"),
        (bomb(6_000, 6_000), "6000×6000 pixels, more than the 24,000,000"),
        (b"GIF89a", "cannot be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "its bytes are none of BMP"),
        (b"", "cannot be read"),
        (picture()[:-40], "cannot be read as a picture"),
    ],
    ids=["bomb", "large", "head only", "program", "nothing", "cut off"],
)
def test_what_is_no_picture_or_too_large_is_refused_before_it_is_decoded(seeing, content, sentence):
    sent = {"image": base64.b64encode(content).decode()}
    for answer in (
        seeing("POST", "/explain", json=sent),
        seeing("POST", "/explain/image", files={"image": ("x", content)}),
    ):
        assert answer.status_code == 422 and sentence in answer.json()["error"] and "0x" not in answer.text


def test_a_text_for_an_image_model_and_wrong_settings_are_refused(seeing):
    assert "reads images" in seeing("POST", "/explain", json={"text": "a"}).json()["error"]
    wrong = seeing("POST", "/explain/image", files={"image": picture()}, data={"settings": '{"depht": 1}'})
    assert wrong.status_code == 422 and "settings: depht" in wrong.json()["error"]
    assert seeing("POST", "/explain/image", data={"settings": "{}"}).status_code == 422
