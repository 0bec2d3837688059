#include "actors/service/shell/otlp_actor.h"

#include <caf/all.hpp>

#include <sstream>

#include "actors/base/log/log.h"
#include "actors/service/shell/http_actor.h"
#include "proto/base/text.h"

namespace es::actors::http {

// Time for the next metrics.
struct OtlpDue {};
struct OtlpBody {
  std::string text;
};

}  // namespace es::actors::http

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::OtlpDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::OtlpBody)

namespace es::actors::http {
namespace {

constexpr std::string_view kMetricsPath = "/v1/metrics";
constexpr int kOk = 200, kMultipleChoices = 300;
constexpr std::size_t kErrorBytesMax = 200;

// Hands the answer of the HttpActor to the actor that has asked for it.
class HandedBody : public Reply {
 public:
  explicit HandedBody(caf::actor to) : to_(std::move(to)) {}
  ~HandedBody() override {
    if (!sent_) caf::anon_send(to_, OtlpBody{});
  }
  void send(Response response) override {
    sent_ = true;
    caf::anon_send(to_, OtlpBody{response.status == kOk ? std::move(response.body) : ""});
  }
  void begin_stream(Response) override {}
  bool push(std::string_view) override { return false; }
  void end() override {}
  bool abandoned() const override { return false; }

 private:
  caf::actor to_;
  bool sent_ = false;
};

// A value may be written as in a URL; %XX is what it stands for.
std::string decoded(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() &&
                       std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                       std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    plain += coded ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (coded) i += 2;
  }
  return plain;
}

Result<std::vector<std::string>> headers_of(const std::string& text) {
  std::vector<std::string> headers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals == std::string::npos || name.empty() || !is_plain(decoded(part)) ||
        name.find_first_of(" :") != std::string::npos)
      return usage_error(
          "OTEL_EXPORTER_OTLP_HEADERS: allowed is NAME=VALUE[,NAME=VALUE...] without spaces in "
          "names");
    headers.push_back(name + ": " + decoded(part.substr(equals + 1)));
  }
  return headers;
}

}  // namespace

Status check(const OtlpOptions& options) {
  if (options.url.empty()) return {};
  ES_RETURN_IF_ERROR(check_service_url("--otlp", options.url));
  const auto headers = headers_of(options.headers);
  return headers ? Status() : headers.error();
}

void OtlpState::init(caf::stateful_actor<OtlpState>* self, OtlpOptions options, caf::actor http) {
  self_ = self;
  options_ = std::move(options);
  http_ = std::move(http);
  std::string base = options_.url;
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with(kMetricsPath)) base.resize(base.size() - kMetricsPath.size());
  client_ = std::make_unique<HttpClient>(
      base, HttpLogin{.headers = headers_of(options_.headers).value()});
  self_->send(self_, OtlpDue{});
}

void OtlpState::take() {
  self_->send(http_, HttpCall{{}, std::make_shared<HandedBody>(self_), true});
}

void OtlpState::send(const std::string& body) {
  self_->delayed_send(self_, options_.interval, OtlpDue{});
  if (body.empty()) return;  // the log of the head says why it does not answer
  const Status sent = post(body);
  if (!sent.ok() && !failing_)
    log::warning("metrics are not sent to the collector: " + sent.error().message +
                 "; it will be tried again");
  if (sent.ok() && failing_) log::info("the collector takes metrics again");
  failing_ = !sent.ok();
}

Status OtlpState::post(const std::string& body) {
  const auto answer = client_->post(std::string(kMetricsPath), body);
  if (!answer) return answer.error();
  if (answer->status >= kOk && answer->status < kMultipleChoices) return {};
  return failure(options_.url + ": status " + std::to_string(answer->status) + " " +
                 escaped(answer->body.substr(0, kErrorBytesMax)));
}

caf::behavior otlp_actor(caf::stateful_actor<OtlpState>* self, OtlpOptions options,
                         caf::actor http) {
  self->state.init(self, std::move(options), std::move(http));
  return {
      [=](const OtlpDue&) { self->state.take(); },
      [=](const OtlpBody& body) { self->state.send(body.text); },
  };
}

}  // namespace es::actors::http
