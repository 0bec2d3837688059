#pragma once
// ObjectCache: the objects of one kind as a list and the watch after it have shown them. Pure.
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

enum class Watched {
  kNothing,  // a bookmark: only the version has changed
  kChange,
  kExpired,  // the server has forgotten the version: a full list is needed
  kStrange,  // not an event; the watch is begun again
};

using Objects = std::map<std::string, std::shared_ptr<const Json>>;  // by name

class ObjectCache {
 public:
  // Takes the answer to a list, and forgets everything else.
  void take_list(const Json& list);
  // Takes one line of a watch.
  Watched take_event(std::string_view line);

  // From where a watch goes on; empty before the first list.
  const std::string& version() const { return version_; }
  const Objects& objects() const { return objects_; }

 private:
  std::string version_;
  Objects objects_;
};

}  // namespace es::actors::kubernetes
