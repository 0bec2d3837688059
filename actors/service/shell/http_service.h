#pragma once
// Starts the HTTP service of a head: the server, the actor that answers, and their files.
#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/access/core/identity.h"
#include "actors/base/gateway/core/transport_stats.h"
#include "actors/service/shell/http_server.h"
#include "actors/service/shell/otlp_actor.h"

namespace es::actors::http {

struct HttpOptions {
  std::string address;      // ADDRESS:PORT; empty: no HTTP service
  std::string tokens;       // file with the tokens (core/tokens.h)
  std::string certificate;  // PEM file; empty: no TLS
  std::string key;          // PEM file
  // Without tokens: what all users may do; loopback address only. None: tokens are needed.
  std::optional<access::Role> no_tokens;
  OtlpOptions otlp;  // metrics for a collector, with or without an address; no URL: none
  bool is_wanted() const { return !address.empty() || !otlp.url.empty(); }
};

struct HttpService {
  caf::actor actor;                    // answers HandOn when it has handled what came before
  std::unique_ptr<HttpServer> server;  // none without an address
};

// Checks what can be checked without a file. Error (usage).
Status check(const HttpOptions& options);

// Reads the files that the service needs, so that a head with a wrong one does not begin to serve.
// Errors: not found, usage, failure.
Status check_files(const HttpOptions& options);

// Starts the service. `state` is the directory with the audit log of a head; `switchboard` leads to
// the head. Without a switchboard the daemon is only a node, and the service has nothing but
// /metrics. `instance` names the process for a collector. Prints "serves ADDRESS" to the log.
// REQUIRES: options.is_wanted(). Errors: usage, failure.
Result<HttpService> start_http_service(caf::actor_system& system, const HttpOptions& options,
                                       const std::filesystem::path& state,
                                       const caf::actor& switchboard, const std::string& instance,
                                       std::function<TransportStats()> transport);

}  // namespace es::actors::http
