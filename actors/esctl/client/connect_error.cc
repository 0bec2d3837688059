#include "actors/esctl/client/connect_error.h"

namespace es::actors::esctl {
namespace {

// A head that ends at this moment also breaks one handshake, and the next attempt shows that no
// process listens. Two failures therefore have another reason.
constexpr int kHandshakesMin = 2;
// A head says goodbye once to a connection that follows one of the same client, if it has not
// noticed yet that the first one was closed, as on a busy machine. A second goodbye has another
// reason.
constexpr int kTurnedAwayMin = 2;

Error no_answer(const ConnectAttempt& a, const std::string& why) {
  return not_found("no easyscaled answers at " + a.endpoint + ": " + why);
}

std::optional<Error> of_news(const ConnectAttempt& a) {
  if (!a.news) return std::nullopt;
  switch (a.news->kind) {
    case LinkNews::Kind::kKeyRefused:
      return refused("easyscaled at " + a.endpoint +
                     " does not accept the key of this machine: the public half of its client.key "
                     "must be in the head's directory authorized/ (see esctl keygen --help)");
    case LinkNews::Kind::kOtherVersion:
      return refused(
          "easyscaled at " + a.endpoint + " speaks protocol " + std::to_string(a.news->protocol) +
          ", this esctl " + std::to_string(kProtocolVersion) +
          ": allowed is the same protocol; use programs of one release (esctl --version)");
    case LinkNews::Kind::kTurnedAway:
      if (a.turned_away < kTurnedAwayMin) return std::nullopt;
      return refused("easyscaled at " + a.endpoint +
                     " has closed the connection: the key of this machine is not authorized any "
                     "more, or the head is about to end");
    default:
      return std::nullopt;
  }
}

std::optional<Error> of_handshake(const ConnectAttempt& a) {
  if (a.handshakes_failed < kHandshakesMin) return std::nullopt;
  // Both sides use CURVE. A refused client key is reported as kKeyRefused, so the server's key is
  // left.
  if (a.probe->listener == Listener::kSecure && a.has_keys)
    return refused("easyscaled at " + a.endpoint +
                   " has another server key: the directory of --keys must contain the server.pub "
                   "of its cluster");
  if (a.probe->listener == Listener::kSecure)
    return refused("easyscaled at " + a.endpoint +
                   " requires keys: name the key directory of this machine with --keys");
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
      return no_answer(
          a, "no process listens there" + reason +
                 "; start a head (easyscaled --help), or use `esctl run`, which needs none");
    case Listener::kNoAccess:
      return refused("easyscaled at " + a.endpoint + ": this user may not use its socket" + reason);
    case Listener::kUnknownHost:
      return no_answer(a, "the name of the host is unknown" + reason);
    case Listener::kNoRoute:
      return no_answer(a, "there is no route to that host" + reason);
    case Listener::kOther:
      return not_found("the program that answers at " + a.endpoint + " is not an easyscaled");
    default:
      return of_handshake(a);
  }
}

}  // namespace

std::optional<Error> certain_error(const ConnectAttempt& attempt) {
  // What the transport has learnt from the peer itself is more certain than the result of a probe.
  if (std::optional<Error> error = of_news(attempt)) return error;
  return of_probe(attempt);
}

bool is_there(const ConnectAttempt& attempt) {
  if (attempt.news && attempt.news->kind != LinkNews::Kind::kConnectFailed) return true;
  if (!attempt.probe) return false;
  const Listener listener = attempt.probe->listener;
  return listener == Listener::kSilent || listener == Listener::kOpen ||
         listener == Listener::kSecure;
}

Error error_after_wait(const ConnectAttempt& attempt) {
  if (std::optional<Error> error = certain_error(attempt)) return *std::move(error);
  const std::string waited = std::to_string(attempt.waited_s) + " s";
  if (is_there(attempt))
    return failure("easyscaled at " + attempt.endpoint +
                   " is connected, but has not answered for " + waited +
                   ": it may be stopped or overloaded");
  // Between processes of one machine there is no firewall.
  if (attempt.endpoint.starts_with("ipc:"))
    return failure("easyscaled at " + attempt.endpoint + " has not answered for " + waited +
                   ": this machine may be overloaded");
  return no_answer(
      attempt, "the host has not answered for " + waited +
                   "; check that it is switched on, and that its firewall allows the connection");
}

}  // namespace es::actors::esctl
