#pragma once
// ConnectionBook knows which connections of an HTTP server wait for what, and says which of them
// have to go. A pure core: the time comes from the caller.
//
// A connection is idle until the first line of a request has come, then it brings the request, and
// from its last byte on the server answers; after the answer it is idle again. A client that sends
// a byte now and then is never silent, so the time counts from the beginning of a state. What is
// being answered may take as long as it needs.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace es::actors::http {

class ConnectionBook {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = int;  // the descriptor of its socket
  static constexpr std::chrono::seconds kFresh{1};

  struct Limits {
    std::chrono::milliseconds idle;     // without a request
    std::chrono::milliseconds request;  // from the first line of a request to its last byte
    std::size_t connections_max;        // above it connections give way to new ones
  };
  explicit ConnectionBook(const Limits& limits) : limits_(limits) {}

  void opened(Id id, Clock::time_point now) { enter(id, State::kIdle, now); }
  void request_began(Id id, Clock::time_point now) { enter(id, State::kReceiving, now); }
  void request_came(Id id, Clock::time_point now) { enter(id, State::kAnswering, now); }
  void answered(Id id, Clock::time_point now) { enter(id, State::kIdle, now); }
  void closed(Id id);

  // The connections that are to be closed now; each is returned once. Those whose time is over, and
  // while there are too many, others: first idle ones, then those that bring a request, always the
  // one that is in its state for the longest time. One that was idle for less than kFresh may be
  // about to send, and counts like one that does.
  std::vector<Id> to_close(Clock::time_point now);
  // When the next time limit ends; nullopt: none is running.
  std::optional<Clock::time_point> next_limit() const;

 private:
  enum class State { kIdle, kReceiving, kAnswering, kClosing };
  struct Entry {
    State state;
    Clock::time_point since;
  };
  // By the beginning of the state, the oldest first.
  using Queue = std::set<std::pair<Clock::time_point, Id>>;

  void enter(Id id, State state, Clock::time_point now);
  Queue* queue_of(State state);
  Queue* first_to_go(Clock::time_point now);

  const Limits limits_;
  std::map<Id, Entry> entries_;
  Queue idle_, receiving_;
  std::size_t closing_ = 0;
};

}  // namespace es::actors::http
