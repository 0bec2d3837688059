// Which connections of the HTTP server have to go, in virtual time.
#include "actors/service/core/connection_book.h"

#include <doctest/doctest.h>

#include <vector>

TEST_SUITE("http/connection_book") {
  using namespace es::actors::http;
  using namespace std::chrono_literals;
  using Ids = std::vector<ConnectionBook::Id>;

  struct Book : ConnectionBook {
    explicit Book(std::size_t most = 100)
        : ConnectionBook({.idle = 120s, .request = 30s, .connections_max = most}) {}
  };
  const ConnectionBook::Clock::time_point kStart{};

  TEST_CASE("a request has a time limit, however often its client sends a byte") {
    Book book;
    book.opened(1, kStart);
    book.request_began(1, kStart + 10s);
    CHECK(book.next_limit() == kStart + 40s);
    CHECK(book.to_close(kStart + 39s).empty());
    CHECK(book.to_close(kStart + 40s) == Ids{1});
    CHECK(book.to_close(kStart + 50s).empty());
    CHECK_FALSE(book.next_limit().has_value());
  }

  TEST_CASE("an answer takes as long as it needs, and the time begins anew after it") {
    Book book;
    book.opened(1, kStart);
    book.request_began(1, kStart);
    book.request_came(1, kStart + 1s);
    CHECK_FALSE(book.next_limit().has_value());
    CHECK(book.to_close(kStart + 100h).empty());
    book.answered(1, kStart + 100h);
    CHECK(book.next_limit() == kStart + 100h + 120s);
    CHECK(book.to_close(kStart + 100h + 120s) == Ids{1});
  }

  TEST_CASE("a connection that never sends a whole line is idle") {
    Book book;
    book.opened(1, kStart);
    CHECK(book.to_close(kStart + 119s).empty());
    CHECK(book.to_close(kStart + 120s) == Ids{1});
  }

  TEST_CASE("above the limit the idle ones go first, then the slowest requests, never an answer") {
    Book book(3);
    book.opened(1, kStart);
    book.request_began(1, kStart);
    book.request_came(1, kStart);
    book.opened(2, kStart);
    book.request_began(2, kStart + 1s);
    book.opened(3, kStart + 2s);
    CHECK(book.to_close(kStart + 2s).empty());
    book.opened(4, kStart + 3s);
    CHECK(book.to_close(kStart + 3s) == Ids{3});  // idle for a second, unlike 4
    book.request_began(4, kStart + 3s);
    // What has to go does not count any more, even before its socket is closed.
    CHECK(book.to_close(kStart + 3s).empty());
    book.closed(3);
    book.opened(5, kStart + 4s);
    book.request_began(5, kStart + 4s);
    CHECK(book.to_close(kStart + 4s) == Ids{2});
    book.request_came(4, kStart + 5s);
    book.request_came(5, kStart + 5s);
    book.opened(6, kStart + 6s);
    CHECK(book.to_close(kStart + 6s) == Ids{6});
  }

  TEST_CASE("slow requests do not shut out a client that has just come") {
    Book book(2);
    for (int id = 1; id <= 2; ++id) {
      book.opened(id, kStart);
      book.request_began(id, kStart + std::chrono::milliseconds(id));
    }
    book.opened(3, kStart + 10ms);
    CHECK(book.to_close(kStart + 10ms) == Ids{1});
    book.opened(4, kStart + 20ms);
    CHECK(book.to_close(kStart + 20ms) == Ids{2});
  }

  TEST_CASE("a number of a socket may come back") {
    Book book;
    book.opened(1, kStart);
    CHECK(book.to_close(kStart + 120s) == Ids{1});
    // What still comes from the old connection changes nothing.
    book.answered(1, kStart + 121s);
    CHECK_FALSE(book.next_limit().has_value());
    book.closed(1);
    book.opened(1, kStart + 130s);
    CHECK(book.next_limit() == kStart + 250s);
    book.closed(2);
  }
}
