#include "actors/kubernetes/core/object_cache.h"

namespace es::actors::kubernetes {

void ObjectCache::take_list(const Json& list) {
  version_ = text_at(list, {"metadata", "resourceVersion"});
  objects_.clear();
  for (const Json& object : value_at(list, {"items"}, Json::array()))
    objects_[name_of(object)] = std::make_shared<const Json>(object);
}

Watched ObjectCache::take_event(std::string_view line) {
  const Json event = Json::parse(line, nullptr, false);
  const std::string type = text_at(event, {"type"});
  const Json object = value_at(event, {"object"}, Json::object());
  if (type == "ERROR")
    return value_at(object, {"code"}, 0) == 410 ? Watched::kExpired : Watched::kStrange;
  const std::string version = text_at(object, {"metadata", "resourceVersion"});
  if (version.empty()) return Watched::kStrange;
  version_ = version;
  if (type == "BOOKMARK") return Watched::kNothing;
  if (type == "DELETED")
    objects_.erase(name_of(object));
  else
    objects_[name_of(object)] = std::make_shared<const Json>(object);
  return Watched::kChange;
}

}  // namespace es::actors::kubernetes
