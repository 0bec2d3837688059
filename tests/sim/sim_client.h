#pragma once
// SimClient is the client of a head, as esctl is. It sends requests and returns the answers as
// values.
#include <caf/actor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/job_view.h"
#include "proto/base/job_spec.h"
#include "proto/messages.h"

namespace es::test {

class SimClient {
 public:
  using FramePtr = actors::protocol::FramePtr;
  // By request. Shared with the actor of the client.
  struct Inbox {
    std::map<std::uint64_t, std::vector<FramePtr>> frames;
  };
  // Runs the world until the condition holds. Throws when that takes too long.
  using Await = std::function<void(const std::function<bool()>&)>;

  SimClient(caf::actor actor, std::shared_ptr<Inbox> inbox, Await await)
      : actor_(std::move(actor)), inbox_(std::move(inbox)), await_(std::move(await)) {}

  // Sends a request and returns its number. The world has to run before anything happens.
  template <class Schema, class Fill>
  std::uint64_t post(const JobId& job, Fill&& fill) {
    const std::uint64_t request = next_request_++;
    send(Msg<Schema>::build({.job = job, .request = request}, fill).frame());
    return request;
  }
  std::uint64_t post_scale(const JobId& job, const std::string& devices);
  std::uint64_t post_cancel(const JobId& job);
  std::uint64_t post_checkpoint(const JobId& job, const std::string& directory);
  std::uint64_t post_pause(const JobId& job);
  std::uint64_t post_resume(const JobId& job, bool accept_loss = false);

  bool answered(std::uint64_t request) const { return inbox_->frames.contains(request); }
  // Waits for the answer. An error means that the head refused, with its reason.
  Status wait(std::uint64_t request);

  Result<JobId> submit(const JobSpec& spec);
  Result<actors::JobView> describe(const JobId& job);
  // Of the jobs that are over only those that ended at most this long ago; 0: all.
  std::vector<actors::JobView> jobs(std::uint64_t ended_within_ms = 0);
  // The lines of its log that this head has.
  std::vector<std::string> log(const JobId& job);
  // Waits until the job has ended and holds nothing any more. Returns its state then.
  actors::JobView wait_until_over(const JobId& job);
  Result<Msg<wire::PlanList>> plans(const JobId& job);
  struct Taken {
    std::string path;
    Version version = 0;
    std::string params_digest, state_digest;
  };
  Result<Taken> wait_checkpoint(std::uint64_t request);
  // Waits for the end of a trace, behind all its parts.
  Status wait_trace(std::uint64_t request);
  // "NODE/TYPE:INDEX" -> the job that holds the device, or an empty text. Only live nodes count.
  std::map<std::string, JobId> owners();
  // The devices of live nodes that no job holds.
  // The nodes that are set aside, that have devices which are, or that have no link to others.
  std::set<std::string> set_aside();
  std::size_t free_devices();

 private:
  void send(FramePtr frame);
  FramePtr answer(std::uint64_t request);

  caf::actor actor_;
  std::shared_ptr<Inbox> inbox_;
  Await await_;
  std::uint64_t next_request_ = 1;
};

// Sends given frames to the head and collects the answers.
struct SendToHead {
  SimClient::FramePtr frame;
};
caf::behavior sim_client_actor(caf::event_based_actor* self, caf::actor gateway,
                               std::shared_ptr<SimClient::Inbox> inbox);

}  // namespace es::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SendToHead)
