#include "actors/esctl/client/connect_error.h"

namespace es::actors::esctl {
namespace {

// A head that ends at this moment also breaks one handshake, and the next attempt shows that no
// process listens. Two failures therefore have another reason.
constexpr int kHandshakesMin = 2;

Error nobody(const ConnectAttempt& a, const std::string& why) {
  return not_found("no easyscaled answers at " + a.endpoint + ": " + why);
}

std::optional<Error> of_news(const ConnectAttempt& a) {
  if (!a.news) return std::nullopt;
  switch (a.news->kind) {
    case LinkNews::Kind::kKeyRefused:
      return refused("easyscaled at " + a.endpoint +
                     " does not know our key: the public half of this machine's client.key must be "
                     "in its directory authorized/ (see esctl keygen --help)");
    case LinkNews::Kind::kOtherVersion:
      return refused("easyscaled at " + a.endpoint + " speaks protocol " +
                     std::to_string(a.news->protocol) + ", this esctl " +
                     std::to_string(kProtocolVersion) +
                     ": allowed is the same; use programs of one release (esctl --version)");
    case LinkNews::Kind::kTurnedAway:
      return refused("easyscaled at " + a.endpoint +
                     " has turned us away: our key is not authorized any more, or it is about to "
                     "end");
    default:
      return std::nullopt;
  }
}

std::optional<Error> of_handshake(const ConnectAttempt& a) {
  if (a.handshakes_failed < kHandshakesMin) return std::nullopt;
  if (a.probe->listener == Listener::kSecure && a.has_keys)
    return refused("easyscaled at " + a.endpoint +
                   " has another server key: allowed is the server.pub of its cluster in the "
                   "directory of --keys");
  if (a.probe->listener == Listener::kSecure)
    return refused("easyscaled at " + a.endpoint +
                   " wants keys: name the directory of this machine's with --keys");
  if (a.probe->listener == Listener::kOpen && a.has_keys)
    return refused("easyscaled at " + a.endpoint +
                   " has no keys: allowed is --insecure-loopback instead of --keys");
  return std::nullopt;
}

std::optional<Error> of_probe(const ConnectAttempt& a) {
  if (!a.probe) return std::nullopt;
  const std::string reason = a.probe->reason.empty() ? "" : " (" + a.probe->reason + ")";
  switch (a.probe->listener) {
    case Listener::kNone:
      return nobody(a, "nobody listens there" + reason +
                           "; is it running? see easyscaled --help, or use `esctl run` which "
                           "needs none");
    case Listener::kNoAccess:
      return refused("easyscaled at " + a.endpoint + ": we may not use its socket" + reason);
    case Listener::kUnknownHost:
      return nobody(a, "the host's name is unknown" + reason);
    case Listener::kNoRoute:
      return nobody(a, "there is no way to that host" + reason);
    case Listener::kOther:
      return not_found("what answers at " + a.endpoint + " is not an easyscaled");
    default:
      return of_handshake(a);
  }
}

}  // namespace

std::optional<Error> certain_error(const ConnectAttempt& attempt) {
  if (std::optional<Error> error = of_news(attempt)) return error;
  return of_probe(attempt);
}

Error error_after_wait(const ConnectAttempt& attempt) {
  if (std::optional<Error> error = certain_error(attempt)) return *std::move(error);
  const std::string waited = std::to_string(attempt.waited_s) + " s";
  const bool takes_connections =
      attempt.news && attempt.news->kind != LinkNews::Kind::kConnectFailed;
  if (takes_connections || (attempt.probe && attempt.probe->listener == Listener::kSilent))
    return failure("easyscaled at " + attempt.endpoint +
                   " is connected, but has not answered for " + waited +
                   ": it may be stopped or overloaded");
  return nobody(attempt, "the host has not answered for " + waited +
                             "; is it switched on, and lets its firewall us in?");
}

}  // namespace es::actors::esctl
