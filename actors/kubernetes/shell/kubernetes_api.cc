#include "actors/kubernetes/shell/kubernetes_api.h"

#include <atomic>
#include <cstdlib>

#include "proto/base/text_file.h"

namespace es::actors::kubernetes {
namespace {

constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr std::size_t kTokenMax = 64 << 10;
// A watch of an object that does not change is silent but for its bookmarks, one a minute.
constexpr long kSilentSeconds = 180;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<Json> answer_of(const std::string& path, const HttpAnswer& answer) {
  Json body = Json::parse(answer.body, nullptr, false);
  if (answer.status < 300) return body;
  std::string message = text_at(body, {"message"});
  if (message.empty()) message = answer.body.substr(0, 200);
  message = "Kubernetes: " + path + ": " + std::to_string(answer.status) + ": " + message;
  if (answer.status == 404) return not_found(message);
  if (answer.status == 409) return refused(message);
  return failure(message);
}

}  // namespace

Result<InCluster> in_cluster() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return usage_error(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this "
        "command runs in a pod of Kubernetes");
  InCluster place;
  place.account = kAccount;
  const auto name_space = read_text_file(place.account / "namespace", kTokenMax);
  if (!name_space)
    return usage_error("the pod has no service account: " + name_space.error().message);
  place.name_space = trimmed(*name_space);
  const std::string name(host);
  const bool is_v6 = name.find(':') != std::string::npos;
  place.url = "https://" + (is_v6 ? "[" + name + "]" : name) + ":" + port;
  return place;
}

// The token of a pod is replaced every hour.
Result<HttpClient*> KubernetesApi::client() {
  const auto token = read_text_file(place_.account / "token", kTokenMax);
  if (!token) return token.error();
  if (!client_ || trimmed(*token) != token_) {
    token_ = trimmed(*token);
    client_ = std::make_unique<HttpClient>(
        place_.url,
        HttpLogin{
            .token = token_, .user = {}, .password = {}, .ca_file = place_.account / "ca.crt"});
  }
  return client_.get();
}

Result<Json> KubernetesApi::send(const std::string& method, const std::string& path,
                                 const std::string& type, const std::string& content) {
  const auto http = client();
  if (!http) return http.error();
  const auto answer = (*http)->send(method, path, type, content);
  if (!answer) return answer.error();
  return answer_of(path, *answer);
}

Result<Json> KubernetesApi::get(const std::string& path) {
  const auto http = client();
  if (!http) return http.error();
  const auto answer = (*http)->get(path);
  if (!answer) return answer.error();
  return answer_of(path, *answer);
}

Result<Json> KubernetesApi::create(const std::string& collection, const Json& object) {
  return send("POST", collection + "?fieldManager=" + kManager, "application/json", object.dump());
}

Result<Json> KubernetesApi::replace(const std::string& path, const Json& object) {
  return send("PUT", path + "?fieldManager=" + kManager, "application/json", object.dump());
}

Result<Json> KubernetesApi::apply(const std::string& path, const Json& object) {
  return send("PATCH", path + "?force=true&fieldManager=" + kManager,
              "application/apply-patch+yaml", object.dump());
}

Result<Json> KubernetesApi::merge(const std::string& path, const Json& patch) {
  return send("PATCH", path + "?fieldManager=" + kManager, "application/merge-patch+json",
              patch.dump());
}

Status KubernetesApi::remove(const std::string& path) {
  const auto answer = send("DELETE", path, "application/json", "{}");
  if (!answer && answer.error().kind != ErrorKind::kNotFound) return answer.error();
  return {};
}

Result<int> KubernetesApi::watch(const std::string& path,
                                 const std::function<void(std::string_view)>& on_line) {
  static const std::atomic<bool> never{false};  // The process ends without its end.
  const auto http = client();
  if (!http) return http.error();
  const auto answer = (*http)->stream(path, kSilentSeconds, never, on_line);
  if (!answer) return answer.error();
  return answer->status;
}

}  // namespace es::actors::kubernetes
