#pragma once
// OtlpActor sends the metrics of this process to a collector of OpenTelemetry, by OTLP over HTTP in
// JSON, again and again.
//
// Accepts   Messages to itself only.
// Sends     HttpCall to the HttpActor, which answers with the metrics.
// State     Whether the collector took the last metrics. Nothing is saved: what a collector does
// not
//           take is lost, and the next metrics contain all counts.
// Fails     A collector that does not answer, or refuses, is a warning in the log, once until it
//           takes metrics again. It costs the other actors nothing.
// Order     One request at a time. A slow collector gets metrics less often.
// Limits    A request ends after 30 s.
// Threads   Detached, because a request to the collector blocks.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "proto/http/http_client.h"

namespace es::actors::http {

struct OtlpOptions {
  std::string url;  // http://HOST:PORT, or with the whole path /v1/metrics
  std::chrono::milliseconds interval{30'000};
  // "NAME=VALUE,NAME=VALUE", as the variable OTEL_EXPORTER_OTLP_HEADERS has it.
  std::string headers;
};

// Errors: usage (no URL of http or https, bad headers).
Status check(const OtlpOptions& options);

class OtlpState {
 public:
  void init(caf::stateful_actor<OtlpState>* self, OtlpOptions options, caf::actor http);
  void take();                         // asks for the metrics
  void send(const std::string& body);  // to the collector; empty: there are no metrics now

 private:
  Status post(const std::string& body);

  caf::stateful_actor<OtlpState>* self_ = nullptr;
  OtlpOptions options_;
  caf::actor http_;
  std::unique_ptr<HttpClient> client_;
  std::string path_;
  bool failing_ = false;
};

// REQUIRES: check(options).
caf::behavior otlp_actor(caf::stateful_actor<OtlpState>* self, OtlpOptions options,
                         caf::actor http);

}  // namespace es::actors::http
