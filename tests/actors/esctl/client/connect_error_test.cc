#include "actors/esctl/client/connect_error.h"

#include <doctest/doctest.h>

namespace es::actors::esctl {
namespace {

ConnectAttempt attempt(std::optional<LinkNews> news, std::optional<EndpointProbe> probe) {
  return {.endpoint = "tcp://head:7070",
          .has_keys = true,
          .waited_s = 5,
          .news = news,
          .handshakes_failed = 2,
          .turned_away = 2,
          .probe = std::move(probe)};
}

bool says(const Error& error, ErrorKind kind, const std::string& words) {
  return error.kind == kind && error.message.find(words) != std::string::npos &&
         error.message.find("tcp://head:7070") != std::string::npos;
}

TEST_SUITE("actors/esctl/connect_error") {
  using News = LinkNews::Kind;

  TEST_CASE("an error that the transport knows is reported at once") {
    const auto error = [](LinkNews news) { return *certain_error(attempt(news, {})); };
    CHECK(says(error({News::kKeyRefused}), ErrorKind::kRefused,
               "does not accept the key of this machine"));
    CHECK(says(error({News::kTurnedAway}), ErrorKind::kRefused, "has closed the connection"));
    CHECK(says(error({News::kOtherVersion, 9}), ErrorKind::kRefused, "speaks protocol 9"));
    for (const News still : {News::kConnected, News::kConnectFailed, News::kHandshakeFailed})
      CHECK_FALSE(certain_error(attempt(LinkNews{still}, {})).has_value());
  }

  TEST_CASE("an error that the file of the socket shows is reported at once") {
    const auto error = [](Listener listener) {
      return *certain_error(attempt(LinkNews{}, EndpointProbe{listener, "why"}));
    };
    CHECK(says(error(Listener::kNone), ErrorKind::kNotFound, "no process listens there (why)"));
    CHECK(says(error(Listener::kNoAccess), ErrorKind::kRefused, "may not use its socket (why)"));
    CHECK(says(error(Listener::kUnknownHost), ErrorKind::kNotFound,
               "name of the host is unknown (why)"));
    CHECK(says(error(Listener::kNoRoute), ErrorKind::kNotFound, "no route to that host (why)"));
    CHECK(says(error(Listener::kOther), ErrorKind::kNotFound, "is not an easyscaled"));
    CHECK(says(error(Listener::kSecure), ErrorKind::kRefused, "has another server key"));
    CHECK(says(error(Listener::kOpen), ErrorKind::kRefused, "has no keys"));
  }

  TEST_CASE("a client without keys gets an error that keys are required") {
    ConnectAttempt without =
        attempt(LinkNews{News::kHandshakeFailed}, EndpointProbe{Listener::kSecure, {}});
    without.has_keys = false;
    CHECK(says(*certain_error(without), ErrorKind::kRefused, "requires keys"));
  }

  TEST_CASE("one broken handshake proves nothing, because the head may be ending") {
    ConnectAttempt once =
        attempt(LinkNews{News::kHandshakeFailed}, EndpointProbe{Listener::kSecure, {}});
    once.handshakes_failed = 1;
    CHECK_FALSE(certain_error(once).has_value());
  }

  TEST_CASE("one goodbye proves nothing, because the head may still have the last connection") {
    ConnectAttempt once =
        attempt(LinkNews{News::kTurnedAway}, EndpointProbe{Listener::kSecure, {}});
    once.handshakes_failed = 0;
    once.turned_away = 1;
    CHECK_FALSE(certain_error(once).has_value());
  }

  TEST_CASE("after the wait, a silent head and an unreachable host give different errors") {
    const EndpointProbe silent{Listener::kSilent, {}};
    CHECK_FALSE(certain_error(attempt(LinkNews{News::kConnected}, silent)).has_value());
    const std::string words = "is connected, but has not answered for 5 s";
    CHECK(says(error_after_wait(attempt(LinkNews{News::kConnected}, silent)), ErrorKind::kFailure,
               words));
    CHECK(says(error_after_wait(attempt(LinkNews{News::kConnected}, {})), ErrorKind::kFailure,
               words));
    CHECK(says(error_after_wait(attempt({}, {})), ErrorKind::kNotFound,
               "the host has not answered for 5 s"));
    // A process that speaks the protocol is there, although the transport has no news of it.
    for (const Listener listener : {Listener::kSilent, Listener::kOpen, Listener::kSecure}) {
      ConnectAttempt late = attempt({}, EndpointProbe{listener, {}});
      late.handshakes_failed = 0;
      CHECK(is_there(late));
      CHECK(says(error_after_wait(late), ErrorKind::kFailure, words));
    }
    CHECK_FALSE(is_there(attempt({}, EndpointProbe{Listener::kNoHost, {}})));
  }

  TEST_CASE("a local socket has no host that could be off, and no firewall") {
    ConnectAttempt local = attempt({}, {});
    local.endpoint = "ipc:///run/head.sock";
    const Error error = error_after_wait(local);
    CHECK(error.kind == ErrorKind::kFailure);
    CHECK(error.message.find("firewall") == std::string::npos);
    CHECK(error.message.find("overloaded") != std::string::npos);
  }
}

}  // namespace
}  // namespace es::actors::esctl
