#pragma once
// Explains why no head answers from what is known about the attempt to connect. Pure functions.
#include <optional>
#include <string>

#include "actors/base/gateway/shell/endpoint_probe.h"
#include "actors/base/gateway/shell/zmq_transport.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

struct ConnectAttempt {
  std::string endpoint;
  bool has_keys = false;
  int waited_s = 0;
  std::optional<LinkNews> news;        // the latest
  int handshakes_failed = 0;           // without those that took too long
  int turned_away = 0;                 // how often the head said goodbye instead of answering
  std::optional<EndpointProbe> probe;  // the latest
};

// Returns the error if it is certain that waiting longer would change nothing.
std::optional<Error> certain_error(const ConnectAttempt& attempt);

// Whether a process takes connections at the endpoint, so that it may still answer.
bool is_there(const ConnectAttempt& attempt);

// Returns the error after the wait.
Error error_after_wait(const ConnectAttempt& attempt);

}  // namespace es::actors::esctl
