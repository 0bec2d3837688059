#pragma once
// The names that EasyScale has in Kubernetes.
#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>

namespace es::actors::kubernetes {

using Json = nlohmann::ordered_json;

inline constexpr const char* kGroup = "easyscale.dev";
inline constexpr const char* kVersion = "v1alpha1";
inline constexpr const char* kApiVersion = "easyscale.dev/v1alpha1";
inline constexpr const char* kFinalizer = "easyscale.dev/drain";
// The field manager of everything that the controller writes.
inline constexpr const char* kManager = "easyscale";
// Labels of all objects of a cluster.
inline constexpr const char* kClusterLabel = "easyscale.dev/cluster";
inline constexpr const char* kComponentLabel = "easyscale.dev/component";
inline constexpr const char* kGroupLabel = "easyscale.dev/group";  // of agents
// The cluster of a job that names none.
inline constexpr const char* kDefaultCluster = "easyscale";
inline constexpr int kHeadPort = 7070;

// The value at a path such as {"metadata", "name"}, or `otherwise` where it is absent or of another
// type.
template <class T>
T value_at(const Json& object, std::initializer_list<const char*> path, T otherwise) {
  const Json* at = &object;
  for (const char* key : path) {
    if (!at->is_object()) return otherwise;
    const auto next = at->find(key);
    if (next == at->end()) return otherwise;
    at = &*next;
  }
  try {
    return at->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}
inline std::string text_at(const Json& object, std::initializer_list<const char*> path) {
  return value_at(object, path, std::string());
}
inline std::string name_of(const Json& object) {
  return text_at(object, {"metadata", "name"});
}
inline bool is_being_deleted(const Json& object) {
  return !text_at(object, {"metadata", "deletionTimestamp"}).empty();
}

}  // namespace es::actors::kubernetes
