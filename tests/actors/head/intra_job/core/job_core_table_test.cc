// Every state of a job's head with every kind of event: each pair is defined, in any order of
// events. The core checks its invariants after each event. The table lists what the event causes.
#include <functional>
#include <string>

#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

struct State_ {
  const char* name;
  std::function<void(Bench&)> reach;  // Workers 1 and 2, in states that have workers, at version 1.
};

void starting(Bench& bench) {
  bench.allocate({device(0), device(1)});
}

void preparing(Bench& bench) {
  starting(bench);
  bench.hello(1);
  bench.hello(2);
}

void installing(Bench& bench) {
  preparing(bench);
  bench.report(1, std::nullopt);
  bench.report(2, std::nullopt);
}

void normal(Bench& bench) {
  bench.run_with(2);
  bench.committed(1, 1);
  bench.committed(2, 1);
}

void draining(Bench& bench) {
  normal(bench);
  bench.event(ScaleCommand{90, parse_device_set("a:1").value()});
}

void suspending(Bench& bench) {
  normal(bench);
  bench.event(PauseCommand{90});
  bench.drained(1, 1);
  bench.drained(2, 1);
}

void ending(Bench& bench) {
  normal(bench);
  bench.event(CancelCommand{90});
}

void ended(Bench& bench) {
  ending(bench);
  bench.exited(1);
  bench.exited(2);
}

const std::vector<State_> kStates = {
    {"queued", [](Bench&) {}},  {"starting", starting},
    {"preparing", preparing},   {"installing", installing},
    {"normal", normal},         {"draining", draining},
    {"suspending", suspending}, {"paused", [](Bench& b) { b.event(PauseCommand{90}); }},
    {"ending", ending},         {"ended", ended},
};

struct Event_ {
  const char* name;
  std::function<Effects(Bench&)> send;
};

const std::vector<Event_> kEvents = {
    {"a device more",
     [](Bench& b) {
       return b.allocate({device(0), device(1), device(2)});
     }},
    {"a device fewer", [](Bench& b) { return b.allocate({device(0)}); }},
    {"all devices about to end",
     [](Bench& b) {
       return b.event(Allocation{++b.sequence, b.releases, {}, true});
     }},
    {"a stale allocation",
     [](Bench& b) {
       return b.event(Allocation{0, 0, {device(3)}});
     }},
    {"DemandRefused", [](Bench& b) { return b.event(DemandRefused{"none"}); }},
    {"worker 1 exited", [](Bench& b) { return b.exited(1); }},
    {"worker 99 exited", [](Bench& b) { return b.exited(99); }},
    {"worker 2 lost",
     [](Bench& b) {
       return b.event(WorkerLost{Incarnation{2}, "silent"});
     }},
    {"scale",
     [](Bench& b) {
       return b.event(ScaleCommand{7, parse_device_set("a:2").value()});
     }},
    {"checkpoint",
     [](Bench& b) {
       return b.event(CheckpointCommand{7, "dir"});
     }},
    {"pause", [](Bench& b) { return b.event(PauseCommand{7}); }},
    {"resume", [](Bench& b) { return b.event(ResumeCommand{7}); }},
    {"cancel", [](Bench& b) { return b.event(CancelCommand{7}); }},
    {"Hello of worker 1", [](Bench& b) { return b.hello(1); }},
    {"Hello of a stranger", [](Bench& b) { return b.hello(99); }},
    {"Report", [](Bench& b) { return b.report(1, 1); }},
    {"Report of a stranger", [](Bench& b) { return b.report(99, 1); }},
    {"Report, old",
     [](Bench& b) {
       return b.say(Report{{Generation{0}, Incarnation{1}}, 1});
     }},
    {"Ready", [](Bench& b) { return b.ready(1, 0); }},
    {"Drained", [](Bench& b) { return b.drained(1, 1); }},
    {"Committed", [](Bench& b) { return b.committed(1, 2); }},
    {"Committed, differs", [](Bench& b) { return b.committed(1, 1, 8); }},
    {"Evaluated",
     [](Bench& b) {
       return b.say(Evaluated{b.stamp(1), 1, totals(5)});
     }},
    {"Suspect",
     [](Bench& b) {
       return b.say(Suspect{b.stamp(1), 1, Incarnation{2}});
     }},
    {"CheckpointWritten, unasked",
     [](Bench& b) {
       return b.say(CheckpointWritten{.stamp = b.stamp(1),
                                      .request = 8,
                                      .path = "p",
                                      .version = 1,
                                      .digests = {},
                                      .error = {}});
     }},
    {"CheckpointUnreadable",
     [](Bench& b) {
       return b.say(CheckpointUnreadable{b.stamp(1), "path", "bad"});
     }},
    {"Audited",
     [](Bench& b) {
       return b.say(Audited{b.stamp(1), 1, 0, {}});
     }},
    {"Failed",
     [](Bench& b) {
       return b.say(Failed{b.stamp(1), "bad"});
     }},
    {"much later", [](Bench& b) { return b.core.tick(b.now += std::chrono::hours(1)); }},
};

// J: the job has ended. X: it ends. P: a round begins. I: Install is sent. G: Go is sent. D: a
// drain begins. C: a checkpoint is requested. r: the request is refused. o: the request is carried
// out. s: a process is started. k: a process is killed. l: a worker is released. e: another effect.
// .: no effect.
char outcome(const Effects& effects, bool was_ending, Phase after) {
  if (!all<JobEnded>(effects).empty()) return 'J';
  if (!was_ending && after == Phase::kEnding) return 'X';
  for (const CommandDone& done : all<CommandDone>(effects))
    if (!done.status.ok()) return 'r';
  for (const CheckpointDone& done : all<CheckpointDone>(effects))
    if (!done.result.ok()) return 'r';
  if (!receivers<Prepare>(effects).empty()) return 'P';
  if (!receivers<Install>(effects).empty()) return 'I';
  if (!receivers<Go>(effects).empty()) return 'G';
  if (!receivers<Drain>(effects).empty()) return 'D';
  if (!receivers<WriteCheckpoint>(effects).empty()) return 'C';
  if (!all<CommandDone>(effects).empty()) return 'o';
  if (!all<StartWorker>(effects).empty()) return 's';
  if (!all<KillWorker>(effects).empty()) return 'k';
  if (!receivers<Release>(effects).empty()) return 'l';
  return effects.empty() ? '.' : 'e';
}

// One row for each event, one column for each state.
// States: queued, starting, preparing, installing, normal, draining, suspending, paused, ending,
// ended.
const std::vector<std::string> kTable = {
    "ssssseseee",  // One device more.
    "sk..D..e..",  // One device fewer.
    ".k.lD.....",  // All devices are about to end.
    "..........",  // A stale allocation.
    "Jeeeeee...",  // DemandRefused.
    ".sPPPPP.e.",  // Worker 1 exited.
    "..........",  // Worker 99 exited.
    ".kPPPPP.k.",  // Worker 2 is lost.
    "eooooooorr",  // scale
    "r...CCCrrr",  // checkpoint; refused while the job holds no device
    "ok.lD..rrr",  // pause
    "rrrrrrrorr",  // resume
    "JXXXXXXJrr",  // cancel
    "k.PPPPPk..",  // Hello of worker 1
    "kkkkkkkkkk",  // Hello of an unknown worker.
    "k......k..",  // Report
    "kkkkkkkkkk",  // Report of an unknown worker.
    "k......k..",  // An old Report.
    "k......k..",  // Ready
    "k...e..k..",  // Drained
    "k.eeeeek..",  // Committed
    "k.eeXXXk..",  // Committed with other bits.
    "keeeeeek..",  // Evaluated
    "k..PPPPk..",  // Suspect
    "k......k..",  // CheckpointWritten without a request.
    "k......k..",  // CheckpointUnreadable
    "k......k..",  // Audited
    "kXXXPPPk..",  // Failed; if another member holds a new version, it is saved first.
    ".kP..P..k.",  // A much later time.
};

TEST_SUITE("actors/head/intra_job/every state x every event") {
  TEST_CASE("each event has in each state the effects that the table lists") {
    std::vector<std::string> actual;
    for (const Event_& event : kEvents) {
      std::string row;
      for (const State_& state : kStates) {
        CAPTURE(event.name);
        CAPTURE(state.name);
        Bench bench;
        state.reach(bench);
        const bool was_ending = bench.core.phase() == Phase::kEnding;
        const Effects effects = event.send(bench);
        row += outcome(effects, was_ending, bench.core.phase());
      }
      actual.push_back(row);
    }
    for (std::size_t i = 0; i < actual.size(); ++i) {
      INFO(kEvents[i].name);
      CHECK(actual[i] == (i < kTable.size() ? kTable[i] : "missing"));
    }
  }

  // No state keeps a device forever: once the job is cancelled and all processes have exited, it
  // ends.
  TEST_CASE("a job that is cancelled in any state, after any event, ends") {
    for (const State_& state : kStates) {
      for (const Event_& event : kEvents) {
        CAPTURE(state.name);
        CAPTURE(event.name);
        Bench bench;
        state.reach(bench);
        event.send(bench);
        bench.event(CancelCommand{8});
        while (!bench.core.fleet().workers().empty())
          bench.exited(bench.core.fleet().workers().begin()->first.value);
        CHECK(bench.core.fleet().holds_nothing());
        CHECK(bench.core.phase() == Phase::kEnding);
      }
    }
  }
}

}  // namespace
}  // namespace es::actors::intra_job
