#pragma once
// The messages between the actors of the controller (controller.h). Each actor has a thread of its
// own, because a request to the server or to the head blocks it.
#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/job_keeper.h"
#include "actors/kubernetes/core/object_cache.h"

namespace es::actors::kubernetes {

enum class ObjectKind { kClusters, kJobs, kPods };

// From a watch: all objects of a kind, whenever one has changed.
struct ObjectsSeen {
  ObjectKind kind{};
  std::shared_ptr<const Objects> objects;
};

// From the actor of the Lease, whenever it was renewed or lost: until when this controller may act.
struct ActsUntil {
  std::chrono::steady_clock::time_point until{};
};

// From the actor of the head, once a second while this controller acts.
struct HeadSeen {
  std::shared_ptr<const HeadFacts> facts;  // null: no head answers, because of `trouble`
  std::string trouble;
};

// To the actor of the head: a request about a job. The answer is HeadAnswered, for some requests
// minutes later.
struct AskHead {
  std::string uid;  // of the object
  std::uint64_t number = 0;
  JobOrder order;
  std::string job;  // its id at the head; empty: it has none
  std::shared_ptr<const Json> object;
};
struct HeadAnswered {
  std::string uid;
  HeadAnswer answer;
};

// To the sender itself: it is time to look again.
struct LookAgain {};

}  // namespace es::actors::kubernetes

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::ObjectsSeen)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::ActsUntil)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::HeadSeen)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::AskHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::HeadAnswered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::kubernetes::LookAgain)
