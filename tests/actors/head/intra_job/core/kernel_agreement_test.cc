// Workers of one device type that would compute with other kernels are refused at D0 and D1.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

const std::string kOld =
    "level D1\ndevice_type a\nlibrary cuDNN 9.1.0\noperator conv: algorithm 1\n";
const std::string kNew =
    "level D1\ndevice_type a\nlibrary cuDNN 9.19.0\noperator conv: algorithm 1\n";

// Two workers that run with the old kernels.
void run_with_two(Bench& bench) {
  bench.allocate({device(0), device(1)});
  for (const std::uint64_t id : {1, 2}) bench.hello(id, kOld);
  bench.round({1, 2}, std::nullopt, {1, 2});
  REQUIRE(bench.core.state() == JobState::kRunning);
}

bool kills(const Effects& effects, std::uint64_t incarnation) {
  const auto killed = all<KillWorker>(effects);
  return killed.size() == 1 && killed[0].incarnation == Incarnation{incarnation};
}

std::string warnings(const Effects& effects) {
  std::string all_of_them;
  for (const LogLine& line : all<LogLine>(effects)) all_of_them += line.text + "\n";
  return all_of_them;
}

TEST_SUITE("actors/head/intra_job/kernel_agreement") {
  TEST_CASE("the first line that differs is named") {
    KernelAgreement agreement;
    CHECK(agreement.check({"a"}, kOld).ok());
    agreement.add({"a"}, kOld);
    CHECK(agreement.check({"a"}, kOld).ok());
    CHECK(agreement.check({"b"}, kNew).ok());
    CHECK(
        agreement.check({"a"}, kNew).error().message ==
        "computes with other kernels than the job's other workers on a, which give other bits: it "
        "has 'library cuDNN 9.19.0' where they have 'library cuDNN 9.1.0'; level D2 allows any "
        "kernels");
    CHECK(agreement.check({"a"}, "level D1\ndevice_type a\n")
              .error()
              .message.find("it has nothing more where they have 'library cuDNN 9.1.0'") !=
          std::string::npos);
    CHECK_FALSE(agreement.check({"a"}, kOld.substr(0, kOld.size() - 1)).ok());
    CHECK_FALSE(agreement.check({"a"}, "").ok());
    CHECK(agreement.check({"a"}, kOld + "operator last: algorithm 2\n")
              .error()
              .message.find("it has 'operator last: algorithm 2' where they have nothing more") !=
          std::string::npos);
  }

  TEST_CASE("a worker with other kernels is refused before the members are asked to pause") {
    Bench bench;
    run_with_two(bench);
    bench.allocate({device(0), device(1), device(2)});
    const Effects effects = bench.hello(3, kNew);
    CHECK(kills(effects, 3));
    CHECK(receivers<Drain>(effects).empty());
    CHECK(warnings(effects).find("it has 'library cuDNN 9.19.0'") != std::string::npos);
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a worker with the same kernels joins") {
    Bench bench;
    run_with_two(bench);
    bench.allocate({device(0), device(1), device(2)});
    const Effects effects = bench.hello(3, kOld);
    CHECK(all<KillWorker>(effects).empty());
    CHECK(receivers<Drain>(effects) == Ids{1, 2});
  }

  TEST_CASE("of workers that begin together, the one with other kernels than the first leaves") {
    Bench bench;
    bench.allocate({device(0), device(1), device(2)});
    bench.hello(1, kOld);
    bench.hello(2, kNew);
    bench.hello(3, kOld);
    const Effects effects = bench.round({1, 2, 3}, std::nullopt, {1, 2, 3});
    CHECK(receivers<Go>(effects).empty());
    CHECK(kills(effects, 2));
    CHECK(receivers<Prepare>(effects) == Ids{1, 3});
    CHECK(receivers<Go>(bench.round({1, 3}, 0, {1, 3})) == Ids{1, 3});
  }

  TEST_CASE("the worker that holds a version decides, though another one has the first ranks") {
    Bench bench;
    bench.allocate({device(0), device(1)});
    bench.hello(1, kNew);
    bench.hello(2, kOld);
    bench.report(1, std::nullopt);
    bench.report(2, 5);
    bench.ready(1, 5);
    const Effects effects = bench.ready(2, 5);
    CHECK(kills(effects, 1));
    CHECK(receivers<Prepare>(effects) == Ids{2});
  }

  TEST_CASE("workers of two types have kernels of their own") {
    Bench bench;
    bench.allocate({device(0), device(0, "b")});
    bench.hello(1, kOld);
    bench.hello(2, kNew);
    CHECK(receivers<Go>(bench.round({1, 2}, std::nullopt, {1, 2})) == Ids{1, 2});
  }

  TEST_CASE(
      "without another device the job ends with the reason, not in an endless row of starts") {
    Bench bench;
    run_with_two(bench);
    bench.exited(1);
    bench.exited(2);
    std::uint64_t worker = 3;
    const auto note_releases = [&](const Effects& effects) {
      bench.releases += all<DeviceReleased>(effects).size();
    };
    for (; bench.core.state() != JobState::kFailed && worker < 100; worker += 2) {
      for (const std::uint64_t id : {worker, worker + 1}) note_releases(bench.hello(id, kNew));
      for (const std::uint64_t id : {worker, worker + 1}) note_releases(bench.exited(id));
      // The cluster scheduler has no other devices, so it gives the same ones again.
      bench.allocate({device(0), device(1)});
    }
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.error().find("it has 'library cuDNN 9.19.0'") != std::string::npos);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
