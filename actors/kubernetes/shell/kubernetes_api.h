#pragma once
// KubernetesApi: requests to the API server with the service account of this pod, as plain REST.
// Not thread-safe: each thread has one of its own.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/kubernetes/core/names.h"
#include "proto/base/result.h"
#include "proto/http/http_client.h"

namespace es::actors::kubernetes {

// Where the server is and who this pod is, as Kubernetes tells every pod.
struct InCluster {
  std::string url;
  std::filesystem::path account;  // directory with token, ca.crt and namespace
  std::string name_space;
};
// Error (usage): this process is in no pod, or the pod has no service account.
Result<InCluster> in_cluster();

class KubernetesApi {
 public:
  explicit KubernetesApi(InCluster place) : place_(std::move(place)) {}

  // Errors: not found; refused (the object exists already, or has changed meanwhile); failure, with
  // the answer of the server, or why it did not answer.
  Result<Json> get(const std::string& path);
  Result<Json> create(const std::string& collection, const Json& object);
  // Replaces the object, which has the version that it replaces.
  Result<Json> replace(const std::string& path, const Json& object);
  // Server-side apply: the fields in `object` are those of the manager of EasyScale from now on.
  Result<Json> apply(const std::string& path, const Json& object);
  Result<Json> merge(const std::string& path, const Json& patch);
  Status remove(const std::string& path);

  // Passes each line of a watch to `on_line` until the server ends it. Returns the status of the
  // answer.
  Result<int> watch(const std::string& path, const std::function<void(std::string_view)>& on_line);

 private:
  Result<HttpClient*> client();
  Result<Json> send(const std::string& method, const std::string& path, const std::string& type,
                    const std::string& content);

  const InCluster place_;
  std::string token_;
  std::unique_ptr<HttpClient> client_;
};

}  // namespace es::actors::kubernetes
