"""Real time, chance and threads, as the ports promise them."""

from __future__ import annotations

import threading

from tenure.adapters.clock import SystemClock, SystemEntropy, SystemThreads
from tests.support.forks import exit_code_of_a_fork


def test_the_clock_adds_what_the_service_s_answers_say_asked_anew_each_time():
    offsets = iter([0, 3_600_000, -3_600_000])
    clock = SystemClock(lambda: next(offsets))
    now, ahead, behind = clock.now_ms(), clock.now_ms(), clock.now_ms()
    assert 3_600_000 <= ahead - now < 3_660_000
    assert -3_600_000 <= behind - now < -3_540_000


def test_a_negative_sleep_is_none():
    SystemClock().sleep(-1)


def test_tokens_are_letters_and_digits_within_the_port_s_length_and_nobody_else_has_them():
    tokens = {SystemEntropy().token() for _ in range(10_000)}
    assert len(tokens) == 10_000
    assert all(20 <= len(token) <= 32 and token.isalnum() and token.isascii() for token in tokens)


def test_fractions_lie_in_the_half_open_interval_and_on_both_sides_of_it():
    fractions = [SystemEntropy().fraction() for _ in range(1000)]
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert min(fractions) < 0.1
    assert max(fractions) > 0.9


def test_threads_have_their_name_and_do_not_keep_a_process_from_ending():
    seen: list[tuple[str, bool]] = []
    thread = SystemThreads().start(
        "tenure-test", lambda: seen.append((threading.current_thread().name, threading.current_thread().daemon))
    )
    assert thread.join(30)
    assert seen == [("tenure-test", True)]


def test_join_and_wait_tell_whether_it_happened():
    threads = SystemThreads()
    flag = threads.signal()
    thread = threads.start("tenure-test", lambda: flag.wait() and None)
    assert not thread.join(0)
    assert not thread.join(-1)
    assert not flag.wait(0)
    assert not flag.is_set()
    flag.set()
    assert flag.wait(-1)
    assert flag.is_set()
    assert thread.join(30)


def test_a_lock_keeps_others_out():
    threads = SystemThreads()
    lock = threads.lock()
    inside: list[int] = []

    def enter() -> None:
        with lock:
            inside.append(1)

    with lock:
        thread = threads.start("tenure-test", enter)
        assert not thread.join(0.01)
        assert inside == []
    assert thread.join(30)
    assert inside == [1]


def test_a_forked_process_finds_every_lock_free():
    """Whoever held one is a thread that the child does not have, and it would wait for it for ever."""
    threads = SystemThreads()
    lock, held, done = threads.lock(), threads.signal(), threads.signal()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    def take() -> bool:
        with lock:
            return True

    holder = threads.start("holder", hold)
    held.wait()
    assert exit_code_of_a_fork(take) == 0
    done.set()
    assert holder.join()
