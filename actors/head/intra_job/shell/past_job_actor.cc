#include "actors/head/intra_job/shell/past_job_actor.h"

#include <caf/all.hpp>

#include <cstring>
#include <fstream>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/job_view.h"
#include "actors/base/protocol/wire/wire_error.h"

namespace es::actors {
namespace {

using Details = Msg<wire::JobDetails>;

struct PastJob {
  Details details;
  std::filesystem::path log_file;
  caf::actor gateway;
};

// Returns the details stored at the end of the job; nullopt if they cannot be read.
std::optional<Details> saved_details(const JobRecord& record, HeadStore& store) {
  const auto bytes = store.history().end(record.id);
  // The details may be damaged or of another release. Then the record alone is shown.
  if (!bytes || !bytes->has_value() || (*bytes)->size() % sizeof(capnp::word) != 0) return {};
  auto words = kj::heapArray<capnp::word>((*bytes)->size() / sizeof(capnp::word));
  // Cap'n Proto reads aligned words, and the bytes of a string may lie anywhere.
  std::memcpy(words.begin(), (*bytes)->data(), (*bytes)->size());
  Envelope envelope{.type = Details::kType, .job = record.id};
  auto details = Details::from_frame(
      std::make_shared<const Frame>(Frame{std::move(envelope), std::move(words)}));
  if (!details || !details->decode([](auto r) { return read_job(r.getInfo()); })) return {};
  return *std::move(details);
}

template <class Schema, class Fill>
void answer(caf::event_based_actor* self, const PastJob& job, const Inbound& inbound, Fill&& fill) {
  const Envelope& envelope = inbound.frame->envelope;
  const auto message = Msg<Schema>::build({.job = envelope.job, .request = envelope.request}, fill);
  self->send(job.gateway, Outbound{inbound.from, message.frame()});
}

void follow(caf::event_based_actor* self, const PastJob& job, const Inbound& inbound) {
  const auto request = Msg<wire::FollowJob>::from_frame(inbound.frame);
  const auto send = [&](auto&& fill) { answer<wire::JobEvent>(self, job, inbound, fill); };
  const auto wanted = request->decode(
      [](wire::FollowJob::Reader r) { return std::pair(r.getLogFromStart(), r.getInfo()); });
  if (wanted && wanted->first) {
    std::ifstream log(job.log_file);
    for (std::string line; std::getline(log, line);)
      send([&](wire::JobEvent::Builder b) { b.setLogLine(line); });
  }
  if (wanted && wanted->second)
    send([&](wire::JobEvent::Builder b) { b.setInfo(job.details.view()->getInfo()); });
  send([](wire::JobEvent::Builder b) { b.setEnded(); });
}

void on_inbound(caf::event_based_actor* self, const PastJob& job, const Inbound& inbound) {
  const Envelope& envelope = inbound.frame->envelope;
  // No client waits for an answer: the sender is a node, or a worker that outlived its job.
  if (envelope.request == 0) return;
  if (envelope.type == MessageType::kFollowJob) return follow(self, job, inbound);
  if (envelope.type != MessageType::kDescribeJob)
    return answer<wire::Refusal>(self, job, inbound, [](wire::Refusal::Builder b) {
      b.setKind(to_wire(ErrorKind::kRefused));
      b.setMessage("the job has ended");
    });
  answer<wire::JobDetails>(self, job, inbound, [&](wire::JobDetails::Builder b) {
    auto view = job.details.view();
    b.setInfo(view->getInfo());
    b.setSpecToml(view->getSpecToml());
  });
}

}  // namespace

Details details_of(const JobRecord& record, std::uint64_t ended_unix_ms) {
  return Details::build({.job = record.id}, [&](wire::JobDetails::Builder b) {
    JobView view;
    view.id = view.name = record.id;
    view.state = state_name(record.state);
    view.error = record.error;
    view.submitted_unix_ms = record.submitted_unix_ms;
    view.submitter = record.submitter;
    view.ended_unix_ms = ended_unix_ms;
    view.spent = record.spent;
    view.budget = record.budget;
    if (const CheckpointRef* newest = record.newest_checkpoint()) view.checkpoint = newest->path;
    put(b.initInfo(), view);
    b.setSpecToml(record.spec_toml);
  });
}

caf::behavior past_job_actor(caf::event_based_actor* self, const JobRecord& record,
                             const std::filesystem::path& log_file, caf::actor gateway,
                             const std::shared_ptr<HeadStore>& store) {
  const auto saved = saved_details(record, *store);
  const PastJob job{saved ? *saved : details_of(record, 0), log_file, std::move(gateway)};
  return {
      [=](const Inbound& inbound) { on_inbound(self, job, inbound); },
      [=](const Msg<wire::DescribeJob>&) { return job.details; },
      [](const PeerDown&) {},
  };
}

}  // namespace es::actors
