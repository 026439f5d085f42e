import pytest

from diffmask.errors import SettingError
from diffmask.serve.access import Access, is_local, rules

from .conftest import asking

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def locked(embedded):
    with asking(embedded, access=Access(local=False, token=TOKEN)) as ask:
        yield ask


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:80", "LOCALHOST.", "127.9.9.9"]
)
def test_names_of_this_machine_are_answered_to(ask, host):
    assert ask("GET", "/info", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[::1", "192.168.0.1"]
)
def test_a_foreign_name_that_leads_here_is_refused(ask, host):
    answer = ask("GET", "/", headers={"Host": host})
    assert answer.status_code == 421 and "answers to localhost" in answer.json()["error"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9", "https://evil.example:80"])
def test_a_page_of_another_site_is_refused(ask, origin):
    answer = ask("POST", "/explain", json={"text": "a"}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_its_own_page_is_answered(ask):
    assert ask("POST", "/explain", json={"text": "a"}, headers={"Origin": "http://localhost"}).status_code == 200


def test_every_answer_says_what_a_browser_may_do_with_it(ask):
    for path in ("/", "/health", "/nowhere", "/page/view.js"):
        headers = ask("GET", path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("given", [None, "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ü", TOKEN])
def test_without_the_token_nothing_is_told(locked, given):
    headers = {} if given is None else {"Authorization": given.encode()}
    for method, path in (("POST", "/explain"), ("GET", "/info"), ("GET", "/openapi.json"), ("POST", "/entry")):
        answer = locked(method, path, headers=headers)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"


def test_with_the_token_it_answers_under_any_name(locked):
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "gpu-box:8000"}
    assert locked("POST", "/explain", json={"text": "a"}, headers=headers).status_code == 200


def test_page_and_health_need_no_token_and_hold_none(locked):
    for path in ("/", "/health", "/page/live.js"):
        answer = locked("GET", path)
        assert answer.status_code == 200 and TOKEN not in answer.text


def test_where_others_can_reach_it_a_token_is_made():
    assert rules("127.0.0.1", None) == Access(local=True, token=None)
    assert rules("::1", TOKEN) == Access(local=True, token=TOKEN)
    made = [rules("0.0.0.0", None).token for _ in range(2)]
    assert made[0] != made[1] and all(len(token) >= 40 for token in made)
    assert rules("example.org", TOKEN) == Access(local=False, token=TOKEN)


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "ü" * 20])
def test_a_weak_token_is_refused(token):
    with pytest.raises(SettingError, match="at least 16"):
        rules("0.0.0.0", token)


def test_all_addresses_are_not_this_machine_alone():
    assert not any(map(is_local, ["0.0.0.0", "::", "", "10.0.0.1", "example.org"]))
