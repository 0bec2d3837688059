#include "tests/actors/views/fake_head.h"

#include "proto/base/check.h"

namespace es::actors::test {
namespace {

void fill_stages(wire::JobInfo::Builder job, std::uint64_t step) {
  auto stages = job.initStages(2);
  stages[0].setPlacement("cpu-avx2:4");
  stages[0].setSteps(20);
  stages[0].setSeconds(2.5);
  stages[1].setPlacement("cpu-scalar:1");
  stages[1].setSteps(step - 20);
  stages[1].setSeconds(5.0);
  stages[1].setRescaleSeconds(0.125);
}

}  // namespace

FakeHead::FakeHead(const std::string& endpoint) {
  auto transport =
      Transport::start({.self = "head", .endpoint = endpoint},
                       {.on_frame = [this](const PeerId& from, std::shared_ptr<const Frame> frame,
                                           const auto&) { answer(from, frame); },
                        .on_peer_up = [](const PeerId&) {},
                        .on_peer_down = [](const PeerId&) {},
                        .log = [](const std::string&) {}});
  ES_CHECK_MSG(transport.ok(), transport.error().message);
  const std::lock_guard lock(mutex_);
  transport_ = *std::move(transport);
}

void FakeHead::on(MessageType type, Handler handler) {
  const std::lock_guard lock(mutex_);
  handlers_[type] = std::move(handler);
}

Frames FakeHead::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void FakeHead::answer(const PeerId& from, const std::shared_ptr<const Frame>& request) {
  const std::lock_guard lock(mutex_);
  seen_.push_back(request);
  const auto handler = handlers_.find(request->envelope.type);
  const Frames frames = handler == handlers_.end()
                            ? Frames{refusal(request, ErrorKind::kUsage, "not expected here")}
                            : handler->second(request);
  for (const auto& frame : frames) transport_->send(from, frame);
}

std::shared_ptr<const Frame> done(const std::shared_ptr<const Frame>& request) {
  return reply<wire::Done>(request, [](wire::Done::Builder) {});
}

std::shared_ptr<const Frame> refusal(const std::shared_ptr<const Frame>& request, ErrorKind kind,
                                     const std::string& message) {
  return reply<wire::Refusal>(request, [&](wire::Refusal::Builder b) {
    b.setKind(static_cast<std::uint8_t>(kind));
    b.setMessage(message);
  });
}

void fill_job(wire::JobInfo::Builder job, const std::string& id, const std::string& state) {
  const std::uint64_t step = state == "finished" ? 60 : 30;
  job.setId(id);
  job.setName("cnn");
  job.setState(state);
  job.setLevel("D2");
  job.setMaxP(4);
  job.setStep(step);
  job.setLastStep(60);
  job.setPlacement(state == "running" ? "cpu-scalar:1" : "");
  job.setLossFirst(2.25F);
  job.setLossLast(0.5F);
  job.setSamplesPerSecond(512.5);
  job.setSamplesPerSecondNow(state == "running" ? 640.25 : 0);
  job.setPeakRssMib(123.25);
  job.setParamsDigest("00112233445566778899aabbccddeeff");
  job.setStateDigest("ffeeddccbbaa99887766554433221100");
  job.setSubmittedUnixMs(1'700'000'000'000);
  fill_stages(job, step);
  auto evaluation = job.initEvaluations(1)[0];
  evaluation.setVersion(30);
  evaluation.setTotal(1000);
  const std::pair<const char*, double> metrics[] = {{"top1", 0.85}, {"top5", 0.99}, {"loss", 0.75}};
  auto list = evaluation.initMetrics(std::size(metrics));
  for (unsigned i = 0; i < std::size(metrics); ++i) {
    list[i].setName(metrics[i].first);
    list[i].setValue(metrics[i].second);
  }
  auto worker = job.initWorkers(1)[0];
  worker.setIncarnation(7);
  worker.setNode("local");
  worker.setDeviceType("cpu-scalar");
  worker.setRankEnd(4);
  worker.setPid(4242);
  if (state == "failed") job.setError("worker 7: loss is not finite");
}

}  // namespace es::actors::test
