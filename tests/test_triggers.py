"""When something happens: every so many steps, or when the user asks the run to stop."""

import signal

from virel_tf.train.triggers import StopRequest


def test_handlers_are_put_back():
    def own(number, frame):
        del number, frame

    before = signal.signal(signal.SIGTERM, own)
    try:
        with StopRequest():
            assert signal.getsignal(signal.SIGTERM) is not own
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_from_outside_python_end_as_the_default(monkeypatch):
    """Python knows such a handler as None, and refuses to set that."""
    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM))

    def set_handler(number, handler):
        if handler is None:
            raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or callable")
        before, handlers[number] = handlers[number], handler
        return before

    monkeypatch.setattr(signal, "signal", set_handler)
    with StopRequest():
        assert all(map(callable, handlers.values()))
    assert set(handlers.values()) == {signal.SIG_DFL}
