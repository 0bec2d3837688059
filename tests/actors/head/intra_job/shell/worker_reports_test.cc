#include "actors/head/intra_job/shell/worker_reports.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace es::actors {
namespace {

struct Stats {
  double peak = 0, switching = 0, waiting = 0;
  std::vector<double> ests{};
};

Msg<wire::WorkerStats> message(const Stats& stats) {
  return Msg<wire::WorkerStats>::build({}, [&](wire::WorkerStats::Builder b) {
    b.setPid(77);
    b.setPeakRssMib(stats.peak);
    b.setContextSwitchSeconds(stats.switching);
    b.setDataWaitSeconds(stats.waiting);
    b.setMessageBytes(10);
    auto ests = b.initEstSeconds(static_cast<unsigned>(stats.ests.size()));
    for (unsigned i = 0; i < ests.size(); ++i) ests.set(i, stats.ests[i]);
  });
}

struct Bench {
  WorkerReports reports;

  bool add(std::uint64_t worker, const Stats& stats) {
    return reports.add(Incarnation{worker}, *message(stats).view()).ok();
  }
  JobView job() const {
    JobView view;
    reports.put_into(view);
    return view;
  }
  WorkerView worker(std::uint64_t incarnation) const {
    WorkerView view{.incarnation = incarnation};
    reports.put_into(view);
    return view;
  }
};

TEST_SUITE("actors/head/intra_job/worker_reports") {
  TEST_CASE("the job has the sums of its workers, and a worker its newest local steps") {
    Bench b;
    CHECK(b.add(1, {.peak = 5, .switching = 1, .waiting = 0, .ests = {1, 1}}));
    CHECK(b.add(2, {.peak = 3, .switching = 0, .waiting = 1, .ests = {2}}));
    CHECK(b.add(1, {.peak = 4, .switching = 1, .waiting = 0, .ests = {3}}));
    CHECK(b.job().peak_rss_mib == 5);
    CHECK(b.job().context_switch_share == 0.2);
    CHECK(b.job().data_wait_share == 0.1);
    CHECK(b.job().message_bytes == 30);
    CHECK(b.worker(1).est_seconds == std::vector<double>{3});
    CHECK(b.worker(1).peak_rss_mib == 4);
    CHECK(b.worker(1).sent_bytes == 20);
    CHECK(b.worker(2).pid == 77);
  }

  TEST_CASE("nothing is taken of a report with a value that is no time") {
    for (const double value : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
      Bench b;
      CHECK_FALSE(b.add(1, {.peak = 5, .ests = {1, value}}));
      CHECK_FALSE(b.add(1, {.peak = value}));
      CHECK(b.job().peak_rss_mib == 0);
      CHECK(b.job().message_bytes == 0);
      CHECK(b.worker(1).pid == 0);
    }
  }

  TEST_CASE("a worker that has ended stays in the sums") {
    Bench b;
    CHECK(b.add(1, {.peak = 5, .ests = {1}}));
    b.reports.forget(Incarnation{1});
    CHECK(b.worker(1).pid == 0);
    CHECK(b.worker(1).est_seconds.empty());
    CHECK(b.job().peak_rss_mib == 5);
  }
}

}  // namespace
}  // namespace es::actors
