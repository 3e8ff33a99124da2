"""Device codes: short-lived, used once, and limited in number."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.device_codes import (
    INTERVAL,
    LIFETIME,
    MAX_ATTEMPTS,
    MAX_CODES,
    MAX_STARTS,
    Approval,
    DeviceCodes,
    NewCode,
    RateGate,
)

ANN = Approval(key="key_1", name="ann")


def start(codes: DeviceCodes, now: float = 0.0, address: str = "a") -> NewCode:
    code = codes.start(address, now)
    assert code is not None
    return code


def test_an_approved_code_is_given_once() -> None:
    codes = DeviceCodes()
    code = start(codes)
    assert codes.poll(code.device_code, 2.0) == "authorization_pending"
    assert codes.approve(code.user_code, ANN, 3.0)
    assert not codes.approve(code.user_code, ANN, 3.0)
    assert codes.poll(code.device_code, 4.0) == ANN
    assert codes.poll(code.device_code, 5.0) == "expired_token"


def test_a_denied_code_stays_denied() -> None:
    codes = DeviceCodes()
    code = start(codes)
    assert codes.deny(code.user_code, 1.0)
    assert not codes.approve(code.user_code, ANN, 1.0)
    assert codes.poll(code.device_code, 2.0) == "access_denied"


def test_a_code_expires() -> None:
    codes = DeviceCodes()
    code = start(codes)
    assert not codes.approve(code.user_code, ANN, LIFETIME)
    assert codes.poll(code.device_code, LIFETIME) == "expired_token"


def test_an_agent_that_polls_too_often_is_slowed_down() -> None:
    codes = DeviceCodes()
    code = start(codes, now=100.0)
    assert codes.poll(code.device_code, 102.0) == "authorization_pending"
    assert codes.poll(code.device_code, 102.1) == "slow_down"
    assert codes.poll(code.device_code, 102.1 + INTERVAL) == "authorization_pending"


@given(st.sampled_from(["", "-", " "]), st.booleans())
def test_people_may_type_the_code_in_their_own_way(separator: str, lower: bool) -> None:
    codes = DeviceCodes()
    code = start(codes)
    typed = code.user_code.replace("-", separator)
    assert codes.is_waiting(typed.lower() if lower else typed, 1.0)


@given(st.text(max_size=40))
def test_another_text_is_no_code(text: str) -> None:
    codes = DeviceCodes()
    code = start(codes)
    assert codes.poll(text, 1.0) == "expired_token"
    assert codes.is_waiting(text, 1.0) == (text.upper().replace("-", "") == code.user_code.replace("-", ""))


def test_the_number_of_codes_is_bounded_per_address_and_in_total() -> None:
    codes = DeviceCodes()
    for _ in range(MAX_STARTS):
        start(codes)
    assert codes.start("a", 0.0) is None
    assert codes.start("a", 60.0) is not None
    for number in range(MAX_CODES - MAX_STARTS - 1):
        start(codes, 60.0, f"b{number}")
    assert codes.start("c", 60.0) is None
    assert codes.start("c", 60.0 + LIFETIME) is not None


def test_attempts_are_counted_per_address_and_minute() -> None:
    gate = RateGate(MAX_ATTEMPTS)
    for _ in range(MAX_ATTEMPTS):
        assert gate.admits("a", 0.0)
        gate.count("a")
    assert not gate.admits("a", 59.0)
    assert gate.admits("b", 59.0)
    assert gate.admits("a", 60.0)


def test_no_repr_shows_a_secret() -> None:
    assert "dgm" not in repr(Approval(key="", name="x", secret="dgm_secret"))
