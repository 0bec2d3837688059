// The commands from end to end, with a head that answers as the test says.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "actors/base/gateway/shell/keys.h"
#include "actors/base/job_file/job_file.h"
#include "tests/actors/esctl/session.h"
#include "tests/actors/views/fake_head.h"
#include "tests/store/temp_directory.h"

namespace es::actors::test {
namespace {

using Json = nlohmann::json;
using Request = std::shared_ptr<const Frame>;

// A head on a socket of its own, and a session that talks to it.
struct Desk {
  es::test::TempDirectory directory;
  const std::string endpoint = "ipc://" + (directory / "sockets/head").string();
  FakeHead head{endpoint};
  Session session;

  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--head", endpoint});
    return session.run(std::move(arguments));
  }
  Json json() const { return Json::parse(session.out()); }
  std::string job_file(const std::string& more = "steps = 60\n") {
    es::test::write_file(directory / "job.toml", job_toml(more));
    return (directory / "job.toml").string();
  }
};

Frames details(const Request& request, const std::string& state) {
  return {reply<wire::JobDetails>(request, [&](wire::JobDetails::Builder b) {
    fill_job(b.initInfo(), request->envelope.job, state);
    b.setSpecToml(job_toml());
  })};
}

Request event(const Request& request, const std::string& state) {
  return reply<wire::JobEvent>(request, [&](wire::JobEvent::Builder b) {
    fill_job(b.initInfo(), request->envelope.job, state);
  });
}

Request log_event(const Request& request, const std::string& line) {
  return reply<wire::JobEvent>(request, [&](wire::JobEvent::Builder b) { b.setLogLine(line); });
}

Request end_event(const Request& request) {
  return reply<wire::JobEvent>(request, [](wire::JobEvent::Builder b) { b.setEnded(); });
}

template <class Schema, class Read>
auto read(const Request& request, Read&& read) {
  return Msg<Schema>::from_frame(request).value().decode(std::forward<Read>(read)).value();
}

}  // namespace

TEST_SUITE("actors/esctl/commands") {
  TEST_CASE("help succeeds and shows an example, for every command") {
    Session session;
    CHECK(session.run({"--help"}) == 0);
    for (const char* command : {"run", "submit", "ps", "describe", "plans", "scale", "claim",
                                "claims", "sim", "checkpoint", "cancel", "logs", "nodes", "inspect",
                                "ledger", "diff", "verify", "keygen", "queues"}) {
      CAPTURE(command);
      CHECK(session.run({command, "--help"}) == 0);
      CHECK(session.out().find("Example") != std::string::npos);
      CHECK(session.out().find("--json") != std::string::npos);
    }
  }

  TEST_CASE("esctl alone prints its help and is a usage error") {
    Session session;
    CHECK(session.run({}) == 2);
    CHECK(session.err().find("Help on a command") != std::string::npos);
    CHECK(session.out().empty());
  }

  TEST_CASE("a wrong command line is a usage error") {
    Session session;
    CHECK(session.run({"frobnicate"}) == 2);
    CHECK(session.run({"ps", "--frobnicate"}) == 2);
    CHECK(session.run({"describe"}) == 2);
    CHECK(session.run({"checkpoint", "ls"}) == 2);
    CHECK(session.err().find("directory with checkpoints in it, or the id of a job") !=
          std::string::npos);
    CHECK(session.run({"run", "job.toml", "--steps", "many"}) == 2);
    CHECK(session.run({"run", "job.toml", "--stages", "a:1@1", "--devices", "a:1"}) == 2);
    CHECK(session.out().empty());
  }

  TEST_CASE("an unknown word is named together with the nearest known one") {
    Session session;
    const auto says = [&](std::vector<std::string> words, const std::string& text) {
      CHECK(session.run(words) == 2);
      CAPTURE(session.err());
      CHECK(session.err() == "esctl: " + text + "\n");
    };
    says({"bogus"}, "unknown command \"bogus\"; the nearest is logs (see esctl --help)");
    says({"sbumit", "job.toml"},
         "unknown command \"sbumit\"; the nearest is submit (see esctl --help)");
    says({"xyzzyplugh"}, "unknown command \"xyzzyplugh\" (see esctl --help)");
    says({"describe", "--jsno"},
         "describe: unknown option \"--jsno\"; the nearest is --json (see esctl describe "
         "--help)");
    says({"run", "job.toml", "--step=5"},
         "run: unknown option \"--step\"; the nearest is --steps (see esctl run --help)");
    says({"ps", "all"}, "ps: unknown argument \"all\" (see esctl ps --help)");
    says({"sim", "compair"},
         "sim: unknown command \"compair\"; the nearest is compare (see esctl sim --help)");
    says({"sim", "compare", "--polices", "srtf"},
         "compare: unknown option \"--polices\"; the nearest is --policies (see esctl sim "
         "compare --help)");
    says({"checkpoint", "prun", "directory"},
         "checkpoint: unknown command \"prun\"; the nearest is prune (see esctl checkpoint "
         "--help)");
    says({"checkpoint", "prun"},
         "checkpoint \"prun\": is neither the id of a job, NAME-NUMBER, nor ls, verify or prune; "
         "the nearest is prune");
    CHECK(session.run({"bogus", "--json"}) == 2);
    CHECK(Json::parse(session.out()).at("kind") == "usage");
  }

  TEST_CASE("a head that does not exist is the error not found") {
    Session session;
    CHECK(session.run({"ps", "--head", "ipc:///nonexistent/head.sock", "--json"}) == 3);
    CHECK(session.err().starts_with("esctl: no easyscaled answers at ipc:///nonexistent/"));
    CHECK(Json::parse(session.out()).at("kind") == "not_found");
    for (const char* id : {"cnn-1", "cnn-1-k3x9w2fa", "small-cnn-12-12345678"})
      CHECK(session.run({"checkpoint", id, "--head", "ipc:///nonexistent/head.sock"}) == 3);
    for (const char* word : {"cnn", "cnn-k3x9w2fa", "cnn-1-", "1-k3x9w2fa"})
      CHECK(session.run({"checkpoint", word, "--head", "ipc:///nonexistent/head.sock"}) == 2);
  }

  TEST_CASE("a malformed endpoint is a usage error, and TCP without keys is refused") {
    Session session;
    CHECK(session.run({"ps", "--head", "http://head"}) == 2);
    CHECK(session.run({"ps", "--head", "tcp://head.example:7070"}) == 4);
  }

  TEST_CASE("ps lists the jobs") {
    Desk desk;
    desk.head.on(MessageType::kListJobs, [](const Request& request) {
      return Frames{reply<wire::JobList>(request, [](wire::JobList::Builder b) {
        auto jobs = b.initJobs(2);
        fill_job(jobs[0], "cnn-1", "finished");
        fill_job(jobs[1], "cnn-2", "running");
      })};
    });
    CHECK(desk.run({"ps"}) == 0);
    CHECK(desk.session.out().find("cnn-2  running   30/60  0.5000") != std::string::npos);
    CHECK(desk.run({"ps", "--json"}) == 0);
    CHECK(desk.json().at("jobs").size() == 2);
    CHECK(desk.json().at("jobs")[1].at("placement") == "cpu-scalar:1");
    CHECK(desk.run({"ps", "--all"}) == 0);
    // A day in milliseconds, and no limit with --all.
    const auto within = [&](std::size_t i) {
      return read<wire::ListJobs>(desk.head.seen()[i],
                                  [](wire::ListJobs::Reader r) { return r.getEndedWithinMs(); });
    };
    CHECK(within(0) == 86'400'000);
    CHECK(within(1) == 86'400'000);
    CHECK(within(2) == 0);
  }

  TEST_CASE("describe shows workers and specification") {
    Desk desk;
    desk.head.on(MessageType::kDescribeJob,
                 [](const Request& request) { return details(request, "running"); });
    CHECK(desk.run({"describe", "cnn-1"}) == 0);
    CHECK(desk.session.out().find("cpu-scalar#0") != std::string::npos);
    CHECK(desk.run({"describe", "cnn-1", "--json"}) == 0);
    CHECK(desk.json().at("job") == "cnn-1");
    CHECK(desk.json().at("workers")[0].at("pid") == 4242);
    CHECK(desk.json().at("spec_toml") == job_toml());
  }

  TEST_CASE(
      "plans lists the fastest plan first, marks the running one and says which speeds are "
      "measured") {
    Desk desk;
    desk.head.on(MessageType::kListPlans, [](const Request& request) {
      return Frames{reply<wire::PlanList>(request, [](wire::PlanList::Builder b) {
        auto plans = b.initPlans(2);
        auto parts = plans[0].initParts(2);
        parts[0].setDeviceType("cpu-avx2");
        parts[0].setDevices(2);
        parts[0].setEstsPerDevice(1);
        parts[1].setDeviceType("cpu-scalar");
        parts[1].setDevices(1);
        parts[1].setEstsPerDevice(2);
        plans[0].setSecondsPerStep(0.25);
        plans[0].setThroughput(16);
        plans[0].setWaste(1.5);
        auto only = plans[1].initParts(1)[0];
        only.setDeviceType("cpu-avx2");
        only.setDevices(1);
        only.setEstsPerDevice(4);
        plans[1].setSecondsPerStep(0.5);
        auto speeds = b.initSpeeds(2);
        speeds[0].setDeviceType("cpu-avx2");
        speeds[0].setStepsPerSecond(8);
        speeds[0].setMeasured(true);
        speeds[1].setDeviceType("cpu-scalar");
        b.setPlacement("cpu-avx2:1");
        b.setPaceSeconds(0.52);
        b.setComplete(false);
      })};
    });
    const auto shows = [&](const char* text) {
      CAPTURE(text);
      CHECK_MESSAGE(desk.session.out().find(text) != std::string::npos, desk.session.out());
    };
    CHECK(desk.run({"plans", "cnn-1", "--top", "1"}) == 0);
    shows("cpu-avx2     8.00           measured\n");
    shows("ESTS EACH  ESTIMATED STEP  LOCAL STEPS/S  WASTED/S  FROM SPEEDS\n");
    shows("1, 2       250.0 ms        16.00          1.50      assumed\n");
    shows("4          500.0 ms        0.00           0.00      measured     runs now\n");
    shows("The job runs on cpu-avx2:1, where steps have taken 520.0 ms each.\n");
    shows("There are more");
    CHECK(desk.run({"plans", "cnn-1", "--json"}) == 0);
    CHECK(desk.json().at("complete") == false);
    CHECK(desk.json().at("plans")[0].at("parts")[1].at("ests_per_device") == 2);
    CHECK(desk.json().at("plans")[0].at("runs") == false);
    CHECK(desk.json().at("plans")[1].at("runs") == true);
    CHECK(desk.json().at("plans")[1].at("measured") == true);
    CHECK(desk.run({"plans"}) == 2);
  }

  TEST_CASE("the kind of a refusal decides the exit code") {
    Desk desk;
    ErrorKind kind = ErrorKind::kNotFound;
    desk.head.on(MessageType::kDescribeJob, [&](const Request& request) {
      return Frames{refusal(request, kind, "no job x")};
    });
    CHECK(desk.run({"describe", "x"}) == 3);
    CHECK(desk.session.err() == "esctl: no job x\n");
    kind = ErrorKind::kRefused;
    CHECK(desk.run({"describe", "x"}) == 4);
    kind = static_cast<ErrorKind>(200);
    CHECK(desk.run({"describe", "x"}) == 1);
  }

  TEST_CASE("an answer of the wrong type is a failure, not a crash") {
    Desk desk;
    desk.head.on(MessageType::kListJobs,
                 [](const Request& request) { return Frames{done(request)}; });
    CHECK(desk.run({"ps"}) != 0);
  }

  TEST_CASE("scale sends canonical devices, and none for auto") {
    Desk desk;
    desk.head.on(MessageType::kScaleJob,
                 [](const Request& request) { return Frames{done(request)}; });
    CHECK(desk.run({"scale", "cnn-1", "cpu-scalar:1+cpu-avx2:1", "--json"}) == 0);
    CHECK(desk.json() == Json{{"job", "cnn-1"}, {"devices", "cpu-avx2:1+cpu-scalar:1"}});
    CHECK(desk.run({"scale", "cnn-1", "auto", "--json"}) == 0);
    CHECK(desk.run({"scale", "cnn-1", "lots"}) == 2);
    const Frames seen = desk.head.seen();
    REQUIRE(seen.size() == 2);
    const auto devices = [](wire::ScaleJob::Reader r) { return std::string(r.getDevices()); };
    CHECK(seen[0]->envelope.job == "cnn-1");
    CHECK(read<wire::ScaleJob>(seen[0], devices) == "cpu-avx2:1+cpu-scalar:1");
    CHECK(read<wire::ScaleJob>(seen[1], devices).empty());
  }

  TEST_CASE("budget sends a number from 0, and says what the job may spend") {
    Desk desk;
    desk.head.on(MessageType::kBudgetJob,
                 [](const Request& request) { return Frames{done(request)}; });
    CHECK(desk.run({"budget", "cnn-1", "12.5", "--json"}) == 0);
    CHECK(desk.json() == Json{{"job", "cnn-1"}, {"budget", 12.5}});
    CHECK(desk.run({"budget", "cnn-1", "0"}) == 0);
    CHECK(desk.run({"budget", "cnn-1", "-1"}) == 2);
    CHECK(desk.run({"budget", "cnn-1", "much"}) == 2);
    const Frames seen = desk.head.seen();
    REQUIRE(seen.size() == 2);
    const auto budget = [](wire::BudgetJob::Reader r) { return r.getBudget(); };
    CHECK(read<wire::BudgetJob>(seen[0], budget) == 12.5);
    CHECK(read<wire::BudgetJob>(seen[1], budget) == 0);
  }

  TEST_CASE("scale prints what will happen to the job") {
    Desk desk;
    std::string state = "running";
    desk.head.on(MessageType::kScaleJob,
                 [](const Request& request) { return Frames{done(request)}; });
    desk.head.on(MessageType::kDescribeJob,
                 [&](const Request& request) { return details(request, state); });
    const auto says = [&](const char* devices, const std::string& text) {
      CHECK(desk.run({"scale", "cnn-1", devices}) == 0);
      CHECK(desk.session.out() == text + "\n");
    };
    says("auto",
         "the scheduler chooses the devices of job cnn-1 from now on; it stays on cpu-scalar:1 "
         "until it is given others, and changes then at a step boundary");
    says("cpu-scalar:1", "job cnn-1 stays on cpu-scalar:1");
    says("cpu-avx2:2",
         "job cnn-1 changes from cpu-scalar:1 to cpu-avx2:2 at the first step boundary at which "
         "their "
         "workers are ready");
    state = "paused";
    says("auto", "job cnn-1 is paused; once it is resumed, the scheduler chooses its devices");
    says("cpu-avx2:2", "job cnn-1 is paused; once it is resumed, it continues on cpu-avx2:2");
    state = "queued";
    says("auto", "the scheduler chooses the devices of job cnn-1 from now on");
    says("cpu-avx2:2", "job cnn-1 starts on cpu-avx2:2");
  }

  TEST_CASE("checkpoint makes the directory absolute and prints its path") {
    Desk desk;
    desk.head.on(MessageType::kCheckpointJob, [](const Request& request) {
      return Frames{reply<wire::CheckpointTaken>(request, [&](wire::CheckpointTaken::Builder b) {
        b.setPath(read<wire::CheckpointJob>(
            request, [](wire::CheckpointJob::Reader r) { return std::string(r.getDirectory()); }));
        b.setVersion(20);
        b.setParamsDigest("aa");
        b.setStateDigest("bb");
      })};
    });
    CHECK(desk.run({"checkpoint", "cnn-1", "--to", "x/y", "--json"}) == 0);
    CHECK(desk.json().at("path") == (std::filesystem::current_path() / "x/y").string());
    CHECK(desk.json().at("version") == 20);
    CHECK(desk.run({"checkpoint", "cnn-1"}) == 0);
    CHECK(desk.session.out().find("params digest  aa") != std::string::npos);
  }

  TEST_CASE("cancel waits for the answer of the head") {
    Desk desk;
    desk.head.on(MessageType::kCancelJob,
                 [](const Request& request) { return Frames{done(request)}; });
    CHECK(desk.run({"cancel", "cnn-1", "--json"}) == 0);
    CHECK(desk.json().at("job") == "cnn-1");
  }

  TEST_CASE("rm goes on after a job that cannot be removed, and names what stays") {
    Desk desk;
    desk.head.on(MessageType::kRemoveJob, [](const Request& request) {
      if (request->envelope.job == "cnn-2")
        return Frames{refusal(request, ErrorKind::kRefused, "job cnn-2 is running")};
      return Frames{reply<wire::Done>(
          request, [](wire::Done::Builder b) { b.setNote("its saved states stay: /ck/1"); })};
    });
    CHECK(desk.run({"rm", "cnn-1", "cnn-2", "cnn-3"}) == 4);
    CHECK(desk.session.out() ==
          "job cnn-1 is removed; its saved states stay: /ck/1\n"
          "job cnn-3 is removed; its saved states stay: /ck/1\n");
    CHECK(desk.session.err().find("cnn-2 is running") != std::string::npos);
    CHECK(desk.run({"rm", "cnn-1", "--json"}) == 0);
    CHECK(desk.json() == Json{{"removed", {"cnn-1"}}});
  }

  TEST_CASE("logs prints the lines, and follows only when asked") {
    Desk desk;
    desk.head.on(MessageType::kFollowJob, [](const Request& request) {
      return Frames{log_event(request, "one"), log_event(request, "two"), end_event(request)};
    });
    CHECK(desk.run({"logs", "cnn-1"}) == 0);
    CHECK(desk.session.out() == "one\ntwo\n");
    CHECK(desk.run({"logs", "-f", "cnn-1", "--json"}) == 0);
    CHECK(desk.session.out() ==
          "{\"ts\":null,\"level\":\"info\",\"line\":\"one\"}\n"
          "{\"ts\":null,\"level\":\"info\",\"line\":\"two\"}\n");
    const auto until_now = [](wire::FollowJob::Reader r) { return r.getUntilNow(); };
    CHECK(read<wire::FollowJob>(desk.head.seen()[0], until_now));
    CHECK_FALSE(read<wire::FollowJob>(desk.head.seen()[1], until_now));
  }

  TEST_CASE("logs shows only the lines that are asked for") {
    Desk desk;
    const std::string early = "2026-11-22T17:31:02.123Z info    job is running";
    const std::string lost = "2026-11-22T17:35:00.000Z warning worker 2 was killed";
    const std::string ended = "2026-11-22T17:36:00.000Z error   job ended: failed";
    desk.head.on(MessageType::kFollowJob, [&](const Request& request) {
      return Frames{log_event(request, early), log_event(request, lost), log_event(request, ended),
                    end_event(request)};
    });
    CHECK(desk.run({"logs", "j", "--since", "2026-11-22T17:35"}) == 0);
    CHECK(desk.session.out() == lost + "\n" + ended + "\n");
    CHECK(desk.run({"logs", "j", "--grep", "worker"}) == 0);
    CHECK(desk.session.out() == lost + "\n");
    CHECK(desk.run({"logs", "j", "--level", "error"}) == 0);
    CHECK(desk.session.out() == ended + "\n");
    CHECK(desk.run({"logs", "j", "--since", "0s"}) == 0);
    CHECK(desk.session.out().empty());
    CHECK(desk.run({"logs", "j", "--since", "soon"}) == 2);
    CHECK(desk.run({"logs", "j", "--level", "loud"}) == 2);
  }

  TEST_CASE("logs follows the log of a worker from one part to the next, until the worker ends") {
    Desk desk;
    desk.head.on(MessageType::kDescribeJob,
                 [](const Request& request) { return details(request, "running"); });
    desk.head.on(MessageType::kReadWorkerLog, [](const Request& request) {
      const std::uint64_t begin = read<wire::ReadWorkerLog>(request, [](auto r) {
        CHECK(r.getWorker() == 17);
        return r.getBegin();
      });
      return Frames{reply<wire::WorkerLog>(request, [&](wire::WorkerLog::Builder b) {
        b.setText(begin == 0 ? "one\ntwo\n" : "three\n");
        b.setEnd(begin == 0 ? 8 : 14);
        b.setComplete(begin == 8);
      })};
    });
    CHECK(desk.run({"logs", "cnn-1", "--worker", "17", "--node", "first"}) == 0);
    CHECK(desk.session.out() == "one\ntwo\n");
    CHECK(desk.run({"logs", "cnn-1", "--worker", "17", "--node", "first", "-f"}) == 0);
    CHECK(desk.session.out() == "one\ntwo\nthree\n");
    CHECK(desk.run({"logs", "cnn-1", "--worker", "17", "--node", "first", "-f", "--grep", "t",
                    "--json"}) == 0);
    CHECK(desk.session.out() ==
          "{\"ts\":null,\"level\":\"info\",\"line\":\"two\"}\n"
          "{\"ts\":null,\"level\":\"info\",\"line\":\"three\"}\n");
    // The job has no worker 99 now.
    CHECK(desk.run({"logs", "cnn-1", "--worker", "99"}) == 2);
    CHECK(desk.session.err().find("--node names the node of one that has ended") !=
          std::string::npos);
    CHECK(desk.run({"logs", "cnn-1", "--node", "first"}) == 2);
  }

  TEST_CASE("a node that has no log of a worker says so") {
    Desk desk;
    desk.head.on(MessageType::kReadWorkerLog, [](const Request& request) {
      return Frames{reply<wire::WorkerLog>(
          request, [](wire::WorkerLog::Builder b) { b.setError("worker 9: no log"); })};
    });
    CHECK(desk.run({"logs", "x", "--worker", "9", "--node", "n"}) == 3);
    CHECK(desk.session.err().find("worker 9: no log") != std::string::npos);
  }

  TEST_CASE("a refusal ends a stream") {
    Desk desk;
    desk.head.on(MessageType::kFollowJob, [](const Request& request) {
      return Frames{log_event(request, "one"), refusal(request, ErrorKind::kNotFound, "no job")};
    });
    CHECK(desk.run({"logs", "-f", "x"}) == 3);
    CHECK(desk.session.out() == "one\n");
  }

  TEST_CASE("nodes counts devices") {
    Desk desk;
    desk.head.on(MessageType::kListNodes, [](const Request& request) {
      return Frames{reply<wire::NodeList>(request, [](wire::NodeList::Builder b) {
        auto node = b.initNodes(1)[0];
        node.setName("local");
        node.setAlive(true);
        node.initDevices(2)[1].setType("cpu-avx2");
      })};
    });
    CHECK(desk.run({"nodes", "--json"}) == 0);
    CHECK(desk.json().at("nodes")[0].at("devices").size() == 2);
  }

  TEST_CASE("claims lists what each claim asks for and has, also one that has nothing yet") {
    Desk desk;
    desk.head.on(MessageType::kListNodes, [](const Request& request) {
      return Frames{reply<wire::NodeList>(request, [](wire::NodeList::Builder b) {
        auto claims = b.initClaims(2);
        claims[0].setName("api");
        claims[1].setName("web");
        for (auto claim : claims) {
          claim.setDeviceType("cpu-avx2");
          claim.setCount(2);
        }
        claims[1].setDevices(1);
      })};
    });
    CHECK(desk.run({"claims", "--json"}) == 0);
    const Json claims = desk.json().at("claims");
    REQUIRE(claims.size() == 2);
    CHECK(claims[0].at("claim") == "api");
    CHECK(claims[0].at("devices") == 0);
    CHECK(claims[1] == Json{{"claim", "web"},
                            {"type", "cpu-avx2"},
                            {"count", 2},
                            {"devices", 1},
                            {"from", nullptr},
                            {"until", nullptr},
                            {"queue", nullptr},
                            {"begun", true},
                            {"waits_for", Json::array()}});
    CHECK(desk.run({"claims"}) == 0);
    CHECK(desk.session.out().starts_with("CLAIM  TYPE      COUNT  HAS\n"));
  }

  TEST_CASE("queues are shown as a tree, with what each has, is entitled to and may have") {
    Desk desk;
    desk.head.on(MessageType::kListNodes, [](const Request& request) {
      return Frames{reply<wire::NodeList>(request, [](wire::NodeList::Builder b) {
        auto queues = b.initQueues(2);
        queues[0].setName("research");
        queues[0].setWeight(1);
        queues[1].setName("vision");
        queues[1].setParent("research");
        queues[1].setWeight(2.5);
        queues[1].setRunning(3);
        queues[1].setWaiting(1);
        queues[1].setShares(true);
        queues[1].setUsage(7200);
        queues[1].setLevel(4);
        auto types = queues[1].initTypes(2);
        types[0].setType("a");
        types[0].setUsed(5);
        types[0].setGuarantee(2);
        types[0].setEntitled(4);
        types[0].setLimited(true);
        types[0].setLimit(6);
        types[1].setType("b");
      })};
    });
    CHECK(desk.run({"queues"}) == 0);
    CHECK(desk.session.out() ==
          "QUEUE     WEIGHT  RUNNING  WAITING  TYPE  USED  GUARANTEE  ENTITLED  BORROWED  LIMIT\n"
          "research  1       0        0        -     0     0          0         0         -\n"
          "  vision  2.5     3        1        a     5     2          4         1         6\n"
          "queue vision has used 2.000 device-hours of late; level 4\n");
    CHECK(desk.run({"queues", "--json"}) == 0);
    const Json vision = desk.json().at("queues").at(1);
    CHECK(vision.at("parent") == "research");
    CHECK(vision.at("device_seconds") == 7200);
    CHECK(vision.at("types").at(0).at("borrowed") == 1);
    CHECK(vision.at("types").at(1).at("limit").is_null());
    CHECK(desk.json().at("queues").at(0).at("parent").is_null());
    CHECK(desk.json().at("queues").at(0).at("level").is_null());
  }

  TEST_CASE("claim without a device type changes the size of a claim") {
    Desk desk;
    std::string asked;
    desk.head.on(MessageType::kClaimDevices, [&](const Request& request) {
      auto view = Msg<wire::ClaimDevices>::from_frame(request)->view();
      asked = std::string(view->getName().cStr()) + " \"" + view->getDeviceType().cStr() + "\" " +
              std::to_string(view->getCount());
      return Frames{reply<wire::Done>(request, [](auto) {})};
    });
    CHECK(desk.run({"claim", "--name", "web", "--count", "3", "--json"}) == 0);
    CHECK(asked == "web \"\" 3");
    CHECK(desk.json() == Json{{"claim", "web"}, {"count", 3}});
  }

  TEST_CASE("reserve sends the times, and the duration counts from the begin") {
    Desk desk;
    std::uint64_t from_ms = 0, until_ms = 0;
    std::string asked;
    desk.head.on(MessageType::kReserveDevices, [&](const Request& request) {
      auto view = Msg<wire::ReserveDevices>::from_frame(request)->view();
      asked = std::string(view->getName().cStr()) + " " + view->getDeviceType().cStr() + " " +
              std::to_string(view->getCount()) + " " + view->getQueue().cStr();
      from_ms = view->getFromUnixMs();
      until_ms = view->getUntilUnixMs();
      return Frames{reply<wire::Done>(request, [](auto) {})};
    });
    CHECK(desk.run({"reserve", "--name", "night", "--type", "a", "--count", "4", "--from",
                    "2036-11-26T20:00", "--for", "10h", "--queue", "vision", "--json"}) == 0);
    CHECK(asked == "night a 4 vision");
    CHECK(until_ms - from_ms == 36'000'000);
    CHECK(desk.json().at("from") == "2036-11-26T20:00:00.000Z");
    CHECK(desk.json().at("until") == "2036-11-27T06:00:00.000Z");
    // Without --from it is the clock of the head that counts.
    CHECK(desk.run({"reserve", "--name", "n", "--type", "a", "--count", "1", "--until", "90m"}) ==
          0);
    CHECK(from_ms == 0);
    CHECK(until_ms > 0);
    for (const char* wrong : {"soon", "", "-1h"})
      CHECK(desk.run({"reserve", "--name", "n", "--type", "a", "--count", "1", "--for", wrong}) ==
            2);
  }

  TEST_CASE("submit sends the canonical specification and prints the id") {
    Desk desk;
    desk.head.on(MessageType::kSubmitJob, [](const Request& request) {
      return Frames{reply<wire::JobAccepted>(
          request, [](wire::JobAccepted::Builder b) { b.setJob("cnn-9"); })};
    });
    CHECK(desk.run({"submit", desk.job_file(), "--stages", "cpu-scalar:2@5"}) == 0);
    CHECK(desk.session.out() == "cnn-9\n");
    const auto toml = [](wire::SubmitJob::Reader r) { return std::string(r.getSpecToml()); };
    const auto spec = parse_job(read<wire::SubmitJob>(desk.head.seen()[0], toml), "sent");
    REQUIRE(spec.ok());
    CHECK(spec->steps == 5);
    CHECK(stages_text(spec->stages) == "cpu-scalar:2@5");
    CHECK(desk.run({"submit", desk.job_file(), "--json"}) == 0);
    CHECK(desk.json() == Json{{"job", "cnn-9"}});
  }

  TEST_CASE("a wrong specification is never sent") {
    Desk desk;
    CHECK(desk.run({"submit", desk.job_file("steps = 60\nmax_q = 3\n")}) == 2);
    CHECK(desk.session.err().find("max_q") != std::string::npos);
    CHECK(desk.run({"submit", "/nonexistent/job.toml"}) == 3);
    CHECK(desk.run({"submit", desk.job_file(), "--from", "/nonexistent/checkpoint"}) == 3);
    CHECK(desk.head.seen().empty());
  }

  TEST_CASE("submit --follow prints one summary at the end") {
    Desk desk;
    desk.head.on(MessageType::kSubmitJob, [](const Request& request) {
      return Frames{reply<wire::JobAccepted>(
          request, [](wire::JobAccepted::Builder b) { b.setJob("cnn-9"); })};
    });
    desk.head.on(MessageType::kFollowJob, [](const Request& request) {
      return Frames{event(request, "running"), end_event(request)};
    });
    std::string state = "finished";
    desk.head.on(MessageType::kDescribeJob,
                 [&](const Request& request) { return details(request, state); });
    CHECK(desk.run({"submit", desk.job_file(), "--follow", "--json"}) == 0);
    CHECK(desk.json().at("steps") == 60);
    CHECK(desk.session.err().find("step 30/60") != std::string::npos);
    state = "failed";
    CHECK(desk.run({"submit", desk.job_file(), "--follow", "--json"}) == 1);
    CHECK(desk.json().at("error") == "worker 7: loss is not finite");
    CHECK(desk.session.err().find("worker 7: loss is not finite") != std::string::npos);
  }

  TEST_CASE("inspect shows the operators of a job file and of a submitted job") {
    Desk desk;
    desk.head.on(MessageType::kDescribeJob,
                 [](const Request& request) { return details(request, "running"); });
    CHECK(desk.run({"inspect", desk.job_file()}) == 0);
    CHECK(desk.session.out().find("conv1") != std::string::npos);
    CHECK(desk.run({"inspect", "cnn-1", "--json"}) == 0);
    const Json json = desk.json();
    CHECK(json.at("sample")[0] == Json{{"name", "image"}, {"type", "f32"}, {"shape", {8, 8, 1}}});
    CHECK(json.at("classes").size() == supported_cpu_classes().size());
    CHECK(json.at("classes")[0].at("kernel_class") == "cpu-scalar");
    CHECK(json.at("classes")[0].at("operators")[0].at("name") == "conv1");
    CHECK(json.at("classes")[0].at("memory").at("arena_bytes") > 0);
  }

  // A head, a node or the author of a job's log may try to attack the terminal of the reader.
  TEST_CASE("texts from a head are printed in one line, without control sequences for a terminal") {
    const std::string bad = "x\x1b[2J\x07\nall is well\r\xc2\x9b\xff";
    const std::string shown = "x\\x1b[2J\\x07\\x0aall is well\\x0d\\xc2\\x9b\\xff";
    Desk desk;
    const auto fill = [&](wire::JobInfo::Builder job) {
      fill_job(job, bad, "running");
      job.setName(bad);
      job.setError(bad);
      job.setWarning(bad);
      job.setWaitingFor(bad);
      job.getWorkers()[0].setNode(bad);
      job.getStages()[0].setPlacement(bad);
    };
    desk.head.on(MessageType::kListJobs, [&](const Request& request) {
      return Frames{reply<wire::JobList>(request, [&](wire::JobList::Builder b) {
        fill(b.initJobs(1)[0]);
        b.setWarning(bad);
      })};
    });
    desk.head.on(MessageType::kDescribeJob, [&](const Request& request) {
      return Frames{reply<wire::JobDetails>(request, [&](wire::JobDetails::Builder b) {
        fill(b.initInfo());
        b.setSpecToml(job_toml());
      })};
    });
    desk.head.on(MessageType::kFollowJob, [&](const Request& request) {
      return Frames{log_event(request, bad), end_event(request)};
    });
    desk.head.on(MessageType::kListNodes, [&](const Request& request) {
      return Frames{reply<wire::NodeList>(request, [&](wire::NodeList::Builder b) {
        b.setWarning(bad);
        auto node = b.initNodes(1)[0];
        node.setName(bad);
        node.setCheckpoints(bad);
        node.setCheckpointProblem(bad);
        node.setAlive(true);
        auto device = node.initDevices(1)[0];
        device.setType(bad);
        device.setJob(bad);
        device.setSuspect(bad);
        auto claim = b.initClaims(1)[0];
        claim.setName(bad);
        claim.setDeviceType(bad);
        auto wait = claim.initWaits(1)[0];
        wait.setJob(bad);
        wait.setReason(bad);
      })};
    });
    desk.head.on(MessageType::kCancelJob, [&](const Request& request) {
      return Frames{refusal(request, ErrorKind::kRefused, bad)};
    });
    desk.head.on(MessageType::kResumeJob, [&](const Request& request) {
      return Frames{reply<wire::Done>(request, [&](wire::Done::Builder b) { b.setNote(bad); })};
    });
    for (const char* command : {"ps", "describe", "logs", "nodes", "claims", "cancel", "resume"}) {
      for (const bool json : {false, true}) {
        std::vector<std::string> words{command};
        const bool of_job = words[0] != "ps" && words[0] != "nodes" && words[0] != "claims";
        if (of_job) words.push_back("cnn-1");
        if (json && words[0] != "logs") words.push_back("--json");
        CAPTURE(command);
        CAPTURE(json);
        desk.run(words);
        const std::string all = desk.session.out() + desk.session.err();
        CHECK(all.find("\nall is well") == std::string::npos);
        for (const char* part : {"\x1b", "\x07", "\r", "\xc2\x9b", "\xff"})
          CHECK(all.find(part) == std::string::npos);
        if (!json) CHECK_MESSAGE(all.find(shown) != std::string::npos, all);
      }
    }
  }

  TEST_CASE("keygen makes keys once and prints no secret") {
    const es::test::TempDirectory directory;
    const std::string keys = (directory / "keys").string();
    Session session;
    CHECK(session.run({"keygen", keys, "--json"}) == 0);
    const auto made = read_cluster_keys(keys);
    REQUIRE(made.ok());
    CHECK(Json::parse(session.out()).at("server_public") == made->server_public);
    CHECK(session.out().find(made->client.secret_key) == std::string::npos);
    CHECK(session.run({"keygen", keys}) == exit_code(ErrorKind::kRefused));
    CHECK(session.err() ==
          "esctl: key file " + keys +
              "/server.key exists, and a key is never overwritten: allowed is a new "
              "directory\n");
    // If one of the files exists, nothing is written, even if it is the last one.
    const std::string others = (directory / "others").string();
    std::filesystem::create_directories(std::filesystem::path(others) / "authorized");
    es::test::write_file(std::filesystem::path(others) / "authorized/self.pub", "public = x\n");
    CHECK(session.run({"keygen", others}) == exit_code(ErrorKind::kRefused));
    CHECK_FALSE(std::filesystem::exists(std::filesystem::path(others) / "server.key"));
  }
}

}  // namespace es::actors::test
