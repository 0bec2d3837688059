// HttpActor: who may send a request, and what happens to it. The other files answer it.
#include "actors/service/shell/http_actor.h"

#include <caf/all.hpp>

#include <utility>

#include "actors/base/access/core/requests.h"
#include "actors/base/log/log.h"
#include "actors/head/switchboard/shell/switchboard_actor.h"
#include "actors/service/core/same_site.h"
#include "actors/service/shell/http_ask.h"
#include "actors/service/shell/token_file.h"
#include "actors/service/shell/web_files.h"

namespace es::actors::http {
namespace {

constexpr std::chrono::seconds kBeatTime{5};
constexpr std::chrono::seconds kFirstSample{1};
// A token that was revoked is refused after this time.
constexpr std::chrono::seconds kTokensAge{1};

Response web_response(const std::string& path) {
  const WebFile* file = web_file(path);
  if (file == nullptr) return error_response(404, escaped(path) + ": there is no such page");
  return {.status = 200, .content_type = file->type, .body = std::string(file->text)};
}

}  // namespace

void HttpState::init(caf::stateful_actor<HttpState>* self, HttpActorOptions options,
                     caf::actor gateway) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  if (!options_.audit_log.empty()) audit_.emplace(options_.audit_log);
  self_->delayed_send(self_, kBeatTime, HttpBeat{});
  if (!options_.metrics_only) self_->delayed_send(self_, kFirstSample, HttpSample{});
}

// The file is read again when it has changed, so tokens are added and revoked while the head runs.
Status HttpState::reload_tokens() {
  const auto now = std::chrono::steady_clock::now();
  if (tokens_time_ && now - tokens_checked_ < kTokensAge) return {};
  tokens_checked_ = now;
  std::error_code error;
  const auto time = std::filesystem::last_write_time(options_.tokens, error);
  if (!error && tokens_time_ == time) return {};
  auto tokens = read_tokens(options_.tokens);
  if (!tokens) return tokens.error();
  tokens_ = *std::move(tokens);
  tokens_time_ = time;
  return {};
}

// What a browser may send for a page.
Status HttpState::check_page(const Request& request) const {
  if (options_.tokens.empty() && !is_loopback_host(request.host))
    return refused("the header Host must name the loopback address, got \"" +
                   escaped(request.host) + "\"");
  return check_same_site(request);
}

Result<Identity> HttpState::identity_of(const Request& request) {
  if (options_.tokens.empty()) return Identity{"local", options_.without_tokens, ""};
  if (const Status read = reload_tokens(); !read.ok()) {
    // A file that may be half written gives no access.
    log::error("the tokens cannot be read: " + read.error().message);
    return failure("the tokens of this head cannot be read; its log says why");
  }
  if (auto identity = identify(tokens_, request.authorization)) return *std::move(identity);
  return refused("needs the header \"Authorization: Bearer TOKEN\" with a token of this head");
}

void HttpState::on_call(HttpCall call) {
  if (call.otlp)
    return metrics(
        {call.request, {"otlp", Role::kView, ""}, nullptr, "", std::move(call.reply), true});
  const Request& request = call.request;
  const Match match = match_route(request.method, request.path);
  Caller caller{call.request, {}, match.route, match.argument, std::move(call.reply)};
  if (match.route == nullptr) {
    Response response =
        match.allowed.empty()
            ? error_response(404, request.path + ": there is no such path")
            : error_response(405, request.method + ": allowed here is " + match.allowed);
    if (!match.allowed.empty()) response.headers.emplace_back("Allow", match.allowed);
    return finish(caller, std::move(response));
  }
  if (options_.metrics_only && match.route->action != Action::kMetrics)
    return finish(caller, error_response(404, request.path + ": a node serves only /metrics"));
  if (match.route->request) {
    if (const Status page = check_page(request); !page.ok())
      return finish(caller, error_response(403, page.error().message));
    auto identity = identity_of(request);
    if (!identity) {
      const bool unknown = identity.error().kind == ErrorKind::kRefused;
      Response response = error_response(unknown ? 401 : 500, identity.error().message);
      if (unknown) response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return finish(caller, std::move(response));
    }
    caller.identity = *std::move(identity);
    const Status allowed = access::check_request(caller.identity, *match.route->request);
    if (!allowed.ok()) {
      const char* const how = options_.tokens.empty() ? "; see easyscaled --http-no-tokens" : "";
      return finish(caller, error_response(403, allowed.error().message + how));
    }
  }
  if (!is_plain(match.argument))
    return finish(caller, error_response(400, "\"" + escaped(match.argument) +
                                                  "\": a name has no control characters"));
  if (changes(*match.route))
    if (const Status type = check_content_type(request); !type.ok())
      return finish(caller, error_response(415, type.error().message));
  dispatch(caller);
}

void HttpState::dispatch(const Caller& caller) {
  switch (caller.route->action) {
    case Action::kPage:
    case Action::kOpenApi:
      return finish(caller, web_response(caller.request.path));
    case Action::kIdentity:
      return finish(caller, {.body = identity_json(caller.identity)});
    case Action::kMetrics:
      return metrics(caller);
    case Action::kListJobs:
      return list_jobs(caller);
    case Action::kSubmitJob:
      return submit(caller);
    case Action::kListNodes:
      return nodes(caller);
    case Action::kListClaims:
      return claims(caller);
    case Action::kReadNode:
      return node_history(caller);
    case Action::kReadCluster:
      return cluster(caller);
    case Action::kListQueues:
      return queues(caller);
    case Action::kMakeClaim:
      return make_claim(caller);
    case Action::kReleaseClaim:
      return command<wire::ReleaseClaim>(
          caller, {}, [&](wire::ReleaseClaim::Builder b) { b.setName(caller.argument); });
    case Action::kVacateNode:
      return vacate_node(caller);
    case Action::kClearDevice:
      return clear_device(caller);
    case Action::kShutdown:
      return command<wire::Shutdown>(caller, {}, [](wire::Shutdown::Builder) {});
    default:
      return job_action(caller);
  }
}

// The answer to every request, once.
void HttpState::finish(const Caller& caller, Response response) {
  if (!caller.otlp) count(caller.request.method, response.status);
  if (audit_ && caller.route != nullptr && changes(*caller.route))
    audit(caller.request, caller.identity, response.status);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Cache-Control", "no-store");
  if (response.content_type.starts_with("text/html"))
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'self'; img-src 'self' data:; frame-ancestors "
                                  "'none'; base-uri 'none'; form-action 'none'");
  caller.reply->send(std::move(response));
}

// Any client may invent methods, so only a few have a count of their own.
void HttpState::count(const std::string& method, int status) {
  const bool known = method == "GET" || method == "HEAD" || method == "POST" || method == "PUT" ||
                     method == "DELETE";
  ++requests_[{known ? method : "other", status}];
}

void HttpState::audit(const Request& request, const Identity& identity, int status) {
  audit_->write({.unix_ms = options_.unix_ms(),
                 .who = identity.name,
                 .role = identity.name.empty() ? "" : role_name(identity.role),
                 .from = request.peer,
                 .method = request.method,
                 .path = request.path,
                 .status = status});
}

void HttpState::on_inbound(const Inbound& inbound) {
  const auto at = waiting_.find(inbound.frame->envelope.request);
  if (at == waiting_.end()) return;  // the answer comes after its time limit
  // The function may send further requests, which changes the map.
  const Then then = at->second.stream ? at->second.then : std::move(at->second.then);
  if (!at->second.stream) waiting_.erase(at);
  if (inbound.frame->envelope.type != MessageType::kRefusal) return then(inbound.frame);
  waiting_.erase(inbound.frame->envelope.request);
  const auto refusal = Msg<wire::Refusal>::from_frame(inbound.frame)->decode(read_refusal);
  then(refusal ? refusal->error : refusal.error());
}

void HttpState::on_expired(std::uint64_t request) {
  const auto at = waiting_.find(request);
  if (at == waiting_.end()) return;
  const Then then = std::move(at->second.then);
  waiting_.erase(at);
  then(failure("the head did not answer in time"));
}

void HttpState::on_beat() {
  for (auto& [job, follow] : follows_)
    std::erase_if(follow.readers, [](const auto& reader) { return !reader->push(": beat\n\n"); });
  stop_abandoned_traces();
  self_->delayed_send(self_, kBeatTime, HttpBeat{});
}

caf::behavior http_actor(caf::stateful_actor<HttpState>* self, HttpActorOptions options,
                         caf::actor gateway) {
  self->state.init(self, std::move(options), std::move(gateway));
  return {
      [=](const HttpCall& call) { self->state.on_call(call); },
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](const HttpExpired& expired) { self->state.on_expired(expired.request); },
      [=](const HttpBeat&) { self->state.on_beat(); },
      [=](const HttpSample&) { self->state.on_sample(); },
      [=](const HttpShow& show) { self->state.on_show(show.job); },
      [](const HandOn& all) { return all; },
      [](const PeerUp&) {},
      [](const PeerDown&) {},
  };
}

}  // namespace es::actors::http
