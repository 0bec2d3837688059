#include "tests/sim/sim_client.h"

#include <caf/all.hpp>

#include "actors/base/job_file/job_file.h"

namespace es::test {

using namespace actors;

namespace {

Error error_of(const SimClient::FramePtr& frame) {
  const auto refusal = Msg<wire::Refusal>::from_frame(frame);
  if (!refusal) return failure("an answer of another type: " + refusal.error().message);
  return {static_cast<ErrorKind>(refusal->view()->getKind()), refusal->view()->getMessage().cStr()};
}

}  // namespace

caf::behavior sim_client_actor(caf::event_based_actor* self, caf::actor gateway,
                               std::shared_ptr<SimClient::Inbox> inbox) {
  self->send(gateway, ConnectPeer{kHead, "sim://head"});
  return {
      [=](const SendToHead& m) {
        self->send(gateway, Outbound{kHead, m.frame});
      },
      [=](const Inbound& m) { inbox->frames[m.frame->envelope.request].push_back(m.frame); },
      [](const PeerUp&) {},
      [](const PeerDown&) {},
  };
}

void SimClient::send(FramePtr frame) {
  caf::anon_send(actor_, SendToHead{std::move(frame)});
}

SimClient::FramePtr SimClient::answer(std::uint64_t request) {
  await_([&] { return answered(request); });
  return inbox_->frames.at(request).front();
}

Status SimClient::wait(std::uint64_t request) {
  const FramePtr frame = answer(request);
  if (frame->envelope.type == MessageType::kDone) return {};
  return error_of(frame);
}

std::uint64_t SimClient::post_scale(const JobId& job, const std::string& devices) {
  return post<wire::ScaleJob>(job, [&](wire::ScaleJob::Builder b) { b.setDevices(devices); });
}

std::uint64_t SimClient::post_cancel(const JobId& job) {
  return post<wire::CancelJob>(job, [](wire::CancelJob::Builder) {});
}

std::uint64_t SimClient::post_pause(const JobId& job) {
  return post<wire::PauseJob>(job, [](wire::PauseJob::Builder) {});
}

std::uint64_t SimClient::post_resume(const JobId& job, bool accept_loss) {
  return post<wire::ResumeJob>(job,
                               [&](wire::ResumeJob::Builder b) { b.setAcceptLoss(accept_loss); });
}

std::uint64_t SimClient::post_checkpoint(const JobId& job, const std::string& directory) {
  return post<wire::CheckpointJob>(
      job, [&](wire::CheckpointJob::Builder b) { b.setDirectory(directory); });
}

Result<JobId> SimClient::submit(const JobSpec& spec) {
  const FramePtr frame = answer(
      post<wire::SubmitJob>("", [&](wire::SubmitJob::Builder b) { b.setSpecToml(to_toml(spec)); }));
  const auto accepted = Msg<wire::JobAccepted>::from_frame(frame);
  if (!accepted) return error_of(frame);
  return JobId(accepted->view()->getJob().cStr());
}

Result<JobView> SimClient::describe(const JobId& job) {
  const FramePtr frame = answer(post<wire::DescribeJob>(job, [](wire::DescribeJob::Builder) {}));
  const auto details = Msg<wire::JobDetails>::from_frame(frame);
  if (!details) return error_of(frame);
  return read_job(details->view()->getInfo());
}

std::vector<JobView> SimClient::jobs(std::uint64_t ended_within_ms) {
  const FramePtr frame = answer(post<wire::ListJobs>(
      "", [&](wire::ListJobs::Builder b) { b.setEndedWithinMs(ended_within_ms); }));
  std::vector<JobView> jobs;
  const auto list = Msg<wire::JobList>::from_frame(frame);
  if (!list) throw std::runtime_error(error_of(frame).message);
  auto view = list->view();
  for (const auto job : view->getJobs()) jobs.push_back(read_job(job));
  return jobs;
}

Result<Msg<wire::PlanList>> SimClient::plans(const JobId& job) {
  const FramePtr frame = answer(post<wire::ListPlans>(job, [](wire::ListPlans::Builder) {}));
  auto list = Msg<wire::PlanList>::from_frame(frame);
  if (!list) return error_of(frame);
  return *std::move(list);
}

std::vector<std::string> SimClient::log(const JobId& job) {
  const std::uint64_t request = post<wire::FollowJob>(job, [](wire::FollowJob::Builder b) {
    b.setLogFromStart(true);
    b.setUntilNow(true);
  });
  std::vector<std::string> lines;
  std::size_t seen = 0;
  await_([&] {
    const std::vector<FramePtr>& frames = inbox_->frames[request];
    for (; seen < frames.size(); ++seen) {
      const auto event = Msg<wire::JobEvent>::from_frame(frames[seen]);
      if (!event || event->view()->isEnded()) return true;
      if (event->view()->isLogLine()) lines.push_back(event->view()->getLogLine().cStr());
    }
    return false;
  });
  return lines;
}

JobView SimClient::wait_until_over(const JobId& job) {
  const std::uint64_t request =
      post<wire::FollowJob>(job, [](wire::FollowJob::Builder b) { b.setInfo(true); });
  JobView last;
  std::size_t seen = 0;
  await_([&] {
    const std::vector<FramePtr>& frames = inbox_->frames[request];
    bool ended = false;
    for (; seen < frames.size(); ++seen) {
      const auto event = Msg<wire::JobEvent>::from_frame(frames[seen]);
      if (!event) throw std::runtime_error(error_of(frames[seen]).message);
      auto view = event->view();
      if (view->isInfo()) last = read_job(view->getInfo());
      ended = ended || view->isEnded();
    }
    return ended;
  });
  return last;
}

Result<SimClient::Taken> SimClient::wait_checkpoint(std::uint64_t request) {
  const FramePtr frame = answer(request);
  const auto taken = Msg<wire::CheckpointTaken>::from_frame(frame);
  if (!taken) return error_of(frame);
  auto view = taken->view();
  return Taken{view->getPath().cStr(), view->getVersion(), view->getParamsDigest().cStr(),
               view->getStateDigest().cStr()};
}

Status SimClient::wait_trace(std::uint64_t request) {
  const auto last = [&] { return inbox_->frames.at(request).back(); };
  await_([&] { return answered(request) && last()->envelope.type != MessageType::kTracePart; });
  if (last()->envelope.type == MessageType::kTraceEnd) return {};
  return error_of(last());
}

std::map<std::string, JobId> SimClient::owners() {
  const auto list = Msg<wire::NodeList>::from_frame(
      answer(post<wire::ListNodes>("", [](wire::ListNodes::Builder) {})));
  std::map<std::string, JobId> owners;
  auto view = list.value().view();
  for (const auto node : view->getNodes())
    for (const auto device : node.getDevices())
      if (node.getAlive())
        owners[std::string(node.getName().cStr()) + "/" + device.getType().cStr() + ":" +
               std::to_string(device.getIndex())] = device.getJob().cStr();
  return owners;
}

std::set<std::string> SimClient::set_aside() {
  const auto list = Msg<wire::NodeList>::from_frame(
      answer(post<wire::ListNodes>("", [](wire::ListNodes::Builder) {})));
  std::set<std::string> aside;
  auto view = list.value().view();
  for (const auto node : view->getNodes()) {
    for (const auto device : node.getDevices())
      if (device.getSuspectUntilUnixMs() != 0) aside.insert(node.getName().cStr());
    if (node.getCutFrom().size() > 0) aside.insert(node.getName().cStr());
  }
  return aside;
}

std::size_t SimClient::free_devices() {
  std::size_t count = 0;
  for (const auto& [device, job] : owners()) count += job.empty() ? 1 : 0;
  return count;
}

}  // namespace es::test
