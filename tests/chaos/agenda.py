"""Actions at a later time: what must undo a fault after some seconds, in every case."""
import heapq
import itertools
import threading
import time


class Agenda:
    def __init__(self):
        self._items, self._numbers = [], itertools.count()
        self._news = threading.Condition()
        self._running = False
        self._closed = False
        self.errors = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, seconds, action):
        with self._news:
            heapq.heappush(self._items, (time.monotonic() + seconds, next(self._numbers), action))
            self._news.notify_all()

    def _run(self):
        while True:
            with self._news:
                self._running = False
                self._news.notify_all()
                while not self._closed and (
                        not self._items or self._items[0][0] > time.monotonic()):
                    self._news.wait(self._items[0][0] - time.monotonic() if self._items else None)
                if self._closed:
                    return
                _, _, action = heapq.heappop(self._items)
                self._running = True
            try:
                action()
            except Exception as error:  # The error is passed to the run, which then fails.
                self.errors.append(error)

    def is_empty(self):
        with self._news:
            return not self._items and not self._running

    def wait_until_empty(self):
        with self._news:
            self._news.wait_for(lambda: not self._items and not self._running)

    def close(self):
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._thread.join()
