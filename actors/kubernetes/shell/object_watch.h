#pragma once
// ObjectWatch: the objects of one kind, kept up to date by a thread that lists them once and
// watches them from then on. Thread-safe.
//
// After an error the watch goes on from the last version; if the server has forgotten that one
// (status 410), everything is listed again. While the server does not answer, the last objects
// stand.
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "actors/kubernetes/core/object_cache.h"
#include "actors/kubernetes/shell/kubernetes_api.h"

namespace es::actors::kubernetes {

class ObjectWatch {
 public:
  // `path`: of the collection. `selector`: a label selector; empty: all. `changed` is called on the
  // thread of the watch.
  ObjectWatch(InCluster place, std::string path, std::string selector,
              std::function<void()> changed);
  ~ObjectWatch();
  ObjectWatch(const ObjectWatch&) = delete;
  ObjectWatch& operator=(const ObjectWatch&) = delete;

  // No value before the first list.
  std::optional<std::map<std::string, Json>> objects() const;
  std::uint64_t lists() const { return lists_; }  // how often everything was listed

 private:
  void run();
  Status list();
  Result<int> watch();
  void pause();

  const std::string path_, selector_;
  const std::function<void()> changed_;
  KubernetesApi api_;
  mutable std::mutex mutex_;
  ObjectCache cache_;
  std::atomic<std::uint64_t> lists_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace es::actors::kubernetes
