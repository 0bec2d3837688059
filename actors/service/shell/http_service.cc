#include "actors/service/shell/http_service.h"

#include <sys/resource.h>
#include <unistd.h>

#include <caf/all.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "actors/base/log/log.h"
#include "actors/head/switchboard/shell/switchboard_actor.h"
#include "actors/service/shell/http_actor.h"
#include "actors/service/shell/token_file.h"
#include "proto/base/private_file.h"
#include "proto/base/text_file.h"

namespace es::actors::http {
namespace {

constexpr std::size_t kPemBytesMax = 1 << 20;

// "127.0.0.1:8080" or "[::1]:8080".
Result<HttpServerOptions> parse_address(const std::string& text) {
  const auto wrong = [&] {
    return usage_error("--http " + text +
                       ": allowed is ADDRESS:PORT, for example 127.0.0.1:8080 or [::1]:8080");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  HttpServerOptions options;
  options.address = text.substr(0, colon);
  if (options.address.starts_with('[') && options.address.ends_with(']'))
    options.address = options.address.substr(1, options.address.size() - 2);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, options.port);
  if (error != std::errc() || rest != end || options.address.empty()) return wrong();
  return options;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::uint64_t now_unix_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

double count_entries(const char* directory) {
  std::error_code error;
  double n = 0;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    ++n;
  return n;
}

// The resident memory of a process in bytes; 0 if it is not there.
double resident_bytes(const std::string& process) {
  std::ifstream pages("/proc/" + process + "/statm");
  double total = 0, resident = 0;
  pages >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The processes that the threads of this one have started: the workers of its node.
void add_workers(ProcessFacts& facts) {
  std::error_code error;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream children(task->path() / "children");
    for (std::string child; children >> child; ++facts.workers)
      facts.workers_resident_bytes += resident_bytes(child);
  }
}

// What /proc says about this process (proc(5)).
ProcessFacts process_facts(double start_unix_seconds) {
  ProcessFacts facts{.start_unix_seconds = start_unix_seconds};
  facts.resident_bytes = resident_bytes("self");
  facts.cpu_seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  facts.open_files = count_entries("/proc/self/fd");
  add_workers(facts);
  return facts;
}

// Connections take at most half of the descriptors of this process, which needs the others for its
// journal, its workers and their links.
void fit_to_descriptors(HttpServerOptions& server) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  server.connections_max =
      static_cast<unsigned>(std::min<rlim_t>(server.connections_max, files.rlim_cur / 2));
  // Three quarters, as without the limit.
  server.connections_of_address_max =
      std::min(server.connections_of_address_max, server.connections_max * 3 / 4);
}

Status read_tls(const HttpOptions& options, HttpServerOptions& server) {
  if (options.certificate.empty()) return {};
  auto certificate = read_text_file(options.certificate, kPemBytesMax);
  if (!certificate) return certificate.error();
  ES_RETURN_IF_ERROR(check_private_file(options.key, "--http-key"));
  auto key = read_text_file(options.key, kPemBytesMax);
  if (!key) return key.error();
  server.certificate = *std::move(certificate);
  server.key = *std::move(key);
  return {};
}

}  // namespace

Status check(const HttpOptions& options) {
  ES_RETURN_IF_ERROR(check(options.otlp));
  if (options.address.empty()) {
    for (const auto* option : {&options.tokens, &options.certificate, &options.key})
      if (!option->empty()) return usage_error("--http-...: allowed only together with --http");
    return {};
  }
  const auto server = parse_address(options.address);
  if (!server) return server.error();
  if (options.certificate.empty() != options.key.empty())
    return usage_error("--http-cert and --http-key: give both, or neither of them");
  if (!options.tokens.empty() && options.no_tokens)
    return usage_error("--http-tokens and --http-no-tokens: give only one of them");
  if (is_loopback(server->address)) return {};
  if (options.no_tokens)
    return usage_error("--http-no-tokens: allowed only on the loopback address, not on " +
                       server->address);
  if (options.certificate.empty())
    return usage_error("--http " + options.address +
                       ": beyond the loopback address the service needs --http-cert and "
                       "--http-key, because tokens must not travel in the clear");
  return {};
}

Status check_files(const HttpOptions& options) {
  if (options.address.empty()) return {};
  HttpServerOptions unused;
  ES_RETURN_IF_ERROR(read_tls(options, unused));
  if (options.no_tokens) return {};
  const auto tokens = read_tokens(options.tokens);
  if (!tokens && tokens.error().kind == ErrorKind::kNotFound)
    return not_found(tokens.error().message +
                     "; make a token: esctl token add NAME --role admin --file " + options.tokens);
  return tokens ? Status() : tokens.error();
}

Result<HttpService> start_http_service(caf::actor_system& system, const HttpOptions& options,
                                       const std::filesystem::path& state,
                                       const caf::actor& switchboard, const std::string& instance,
                                       std::function<TransportStats()> transport) {
  HttpActorOptions answers;
  answers.instance = instance;
  if (options.no_tokens)
    answers.without_tokens = *options.no_tokens;
  else
    answers.tokens = options.tokens;
  answers.metrics_only = !switchboard;
  if (switchboard) answers.audit_log = state / "audit.log";
  answers.unix_ms = now_unix_ms;
  answers.process = [start = static_cast<double>(now_unix_ms()) / 1e3,
                     transport = std::move(transport)] {
    ProcessFacts facts = process_facts(start);
    facts.transport = transport();
    return facts;
  };
  const auto actor = system.spawn(http_actor, std::move(answers), switchboard);
  if (switchboard) caf::anon_send(switchboard, RegisterPeer{kHttpPeer, actor});
  if (!options.otlp.url.empty()) system.spawn<caf::detached>(otlp_actor, options.otlp, actor);
  if (options.address.empty()) return HttpService{actor, {}};
  auto server_options = parse_address(options.address);
  if (!server_options) return server_options.error();
  ES_RETURN_IF_ERROR(read_tls(options, *server_options));
  fit_to_descriptors(*server_options);
  auto server =
      HttpServer::start(*server_options, [actor](Request request, std::shared_ptr<Reply> reply) {
        caf::anon_send(actor, HttpCall{std::move(request), std::move(reply)});
      });
  if (!server) return server.error();
  const bool v6 = server_options->address.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + server_options->address + "]" : server_options->address;
  log::info(std::string("serves ") + (options.certificate.empty() ? "http://" : "https://") + host +
            ":" + std::to_string((*server)->port()));
  return HttpService{actor, *std::move(server)};
}

}  // namespace es::actors::http
