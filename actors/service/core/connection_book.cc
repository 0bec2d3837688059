#include "actors/service/core/connection_book.h"

#include <algorithm>

namespace es::actors::http {

ConnectionBook::Queue* ConnectionBook::queue_of(State state) {
  if (state == State::kIdle) return &idle_;
  return state == State::kReceiving ? &receiving_ : nullptr;
}

void ConnectionBook::enter(Id id, State state, Clock::time_point now) {
  const auto [at, is_new] = entries_.try_emplace(id, Entry{state, now});
  if (!is_new) {
    // It is gone for the clients as soon as it is to be closed.
    if (at->second.state == State::kClosing) return;
    if (Queue* before = queue_of(at->second.state)) before->erase({at->second.since, id});
    at->second = {state, now};
  }
  if (Queue* queue = queue_of(state)) queue->insert({now, id});
}

void ConnectionBook::closed(Id id) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return;
  if (at->second.state == State::kClosing) --closing_;
  if (Queue* queue = queue_of(at->second.state)) queue->erase({at->second.since, id});
  entries_.erase(at);
}

ConnectionBook::Queue* ConnectionBook::first_to_go(Clock::time_point now) {
  if (idle_.empty()) return receiving_.empty() ? nullptr : &receiving_;
  if (receiving_.empty() || idle_.begin()->first + kFresh <= now) return &idle_;
  return idle_.begin()->first < receiving_.begin()->first ? &idle_ : &receiving_;
}

std::vector<ConnectionBook::Id> ConnectionBook::to_close(Clock::time_point now) {
  std::vector<Id> ids;
  const auto close_first_of = [&](Queue& queue) {
    const Id id = queue.begin()->second;
    queue.erase(queue.begin());
    entries_.at(id).state = State::kClosing;
    ++closing_;
    ids.push_back(id);
  };
  while (!idle_.empty() && idle_.begin()->first + limits_.idle <= now) close_first_of(idle_);
  while (!receiving_.empty() && receiving_.begin()->first + limits_.request <= now)
    close_first_of(receiving_);
  while (entries_.size() - closing_ > limits_.connections_max) {
    Queue* next = first_to_go(now);
    if (next == nullptr) break;
    close_first_of(*next);
  }
  return ids;
}

std::optional<ConnectionBook::Clock::time_point> ConnectionBook::next_limit() const {
  std::optional<Clock::time_point> next;
  if (!idle_.empty()) next = idle_.begin()->first + limits_.idle;
  if (!receiving_.empty()) {
    const auto limit = receiving_.begin()->first + limits_.request;
    next = next ? std::min(*next, limit) : limit;
  }
  return next;
}

}  // namespace es::actors::http
