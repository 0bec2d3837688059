// Every state of a worker core with every kind of event: each pair is defined, in any order of
// events. The core checks its invariants after each event. The table lists what the event causes.
#include <functional>
#include <string>

#include "tests/actors/worker/core/worker_bench.h"

namespace es::actors::worker {
namespace {

struct State_ {
  const char* name;
  // Generation 1 is promised, and version 5 is held in states that have a version.
  std::function<void(Bench&)> reach;
};

void standby(Bench& bench) {
  bench.ready_at(5);
  bench.go();
  bench.head(Prepare{from_head(2)});
  Install install = Bench::install(2, 5, Bench::source());
  install.members = {{kPeer, {0, 2}, "peer", "h"}};
  bench.head(install);
}

void waits_for_state(Bench& bench) {
  bench.head(Prepare{from_head(1)});
  bench.head(Bench::install(1, 5, Bench::source()));
}

void loads(Bench& bench) {
  bench.head(Prepare{from_head(1)});
  bench.head(Bench::install(1, 5, FromCheckpoint{"path"}));
}

void steps(Bench& bench) {
  bench.ready_at(5);
  bench.go();
  bench.sum_own(5);
}

void updates(Bench& bench) {
  bench.ready_at(5);
  bench.go();
  bench.step_until_update(5);
}

void paused(Bench& bench) {
  bench.head(Prepare{from_head(1)});
  Install install = Bench::install(1, 5, FromCheckpoint{"path"});
  install.pause_at = 5;
  bench.head(install);
  bench.engine(VersionLoaded{5});
  bench.go();
}

void failed(Bench& bench) {
  steps(bench);
  bench.engine(EngineFailed{"loss is not finite"});
}

const std::vector<State_> kStates = {
    {"new", [](Bench&) {}},
    {"sealed", [](Bench& b) { b.head(Prepare{from_head(1)}); }},
    {"standby", standby},
    {"waits for State", waits_for_state},
    {"loads", loads},
    {"ready", [](Bench& b) { b.ready_at(5); }},
    {"steps", steps},
    {"updates", updates},
    {"paused", paused},
    {"failed", failed},
    {"exited", [](Bench& b) { b.head(Release{from_head(1)}); }},
};

struct Event_ {
  const char* name;
  std::function<Effects(Bench&)> send;
};

// Of the generation that the core has promised.
std::uint64_t now(const Bench& bench) {
  return bench.core.generation().value;
}

protocol::State state_of(const Bench& bench) {
  protocol::State state;
  state.stamp = {bench.core.generation(), kSource};
  state.version = 5;
  state.contexts = {Bench::context(), Bench::context()};
  return state;
}

const std::vector<Event_> kEvents = {
    {"Prepare", [](Bench& b) { return b.head(Prepare{from_head(now(b) + 1)}); }},
    {"Prepare again", [](Bench& b) { return b.head(Prepare{from_head(now(b))}); }},
    {"Install", [](Bench& b) { return b.head(Bench::install(now(b), 5, Bench::source())); }},
    {"Install, other", [](Bench& b) { return b.head(Bench::install(9, 5, Bench::source())); }},
    {"Go", [](Bench& b) { return b.head(Go{from_head(now(b))}); }},
    {"Go, other", [](Bench& b) { return b.head(Go{from_head(9)}); }},
    {"Drain", [](Bench& b) { return b.head(Drain{from_head(now(b))}); }},
    {"Acknowledge",
     [](Bench& b) {
       return b.head(Acknowledge{from_head(now(b)), 5});
     }},
    {"WriteCheckpoint",
     [](Bench& b) {
       return b.head(WriteCheckpoint{.stamp = from_head(now(b)), .request = 7, .directory = "dir"});
     }},
    {"Audit",
     [](Bench& b) {
       return b.head(Audit{from_head(now(b)), 5, 0});
     }},
    {"AuditPassed",
     [](Bench& b) {
       return b.head(AuditPassed{from_head(now(b)), 5});
     }},
    {"Decided",
     [](Bench& b) {
       return b.head(Decided{from_head(now(b)), 5, ""});
     }},
    {"Release", [](Bench& b) { return b.head(Release{from_head(now(b))}); }},
    {"Contrib, old", [](Bench& b) { return b.peer(Bench::contrib(0, 5)); }},
    {"Contrib", [](Bench& b) { return b.peer(Bench::contrib(now(b), 5)); }},
    {"Contrib, early", [](Bench& b) { return b.peer(Bench::contrib(now(b), 6)); }},
    {"Contrib, future", [](Bench& b) { return b.peer(Bench::contrib(9, 5)); }},
    {"Reduced", [](Bench& b) { return b.peer(Bench::reduced(now(b), 5)); }},
    {"Reduced, past", [](Bench& b) { return b.peer(Bench::reduced(now(b), 4)); }},
    {"Fetch",
     [](Bench& b) {
       return b.peer(Fetch{from_peer(now(b)), 5, "peer", "h"});
     }},
    {"State", [](Bench& b) { return b.peer(state_of(b)); }},
    {"VersionLoaded", [](Bench& b) { return b.engine(VersionLoaded{5}); }},
    {"PartSummed",
     [](Bench& b) { return b.engine(Bench::own_part(b.core.generation().value, 5, 1)); }},
    {"BucketReduced", [](Bench& b) { return b.engine(Bench::bucket_reduced(0, 5)); }},
    {"UpdateApplied", [](Bench& b) { return b.commit(5); }},
    {"VersionExported",
     [](Bench& b) {
       return b.engine(VersionExported{b.core.generation(), kPeer, {}});
     }},
    {"EvaluationDone",
     [](Bench& b) {
       return b.engine(EvaluationDone{b.core.generation(), 5, Bench::context()});
     }},
    {"AuditDone",
     [](Bench& b) {
       return b.engine(AuditDone{b.core.generation(), 5, 0, {}});
     }},
    {"CheckpointFinished",
     [](Bench& b) {
       return b.engine(CheckpointFinished{7, "dir", 5, {}, {}, ErrorKind::kFailure});
     }},
    {"DataUnreadable",
     [](Bench& b) {
       return b.engine(DataUnreadable{b.core.generation(), kPeer});
     }},
    {"CheckpointDamaged",
     [](Bench& b) {
       return b.engine(CheckpointDamaged{b.core.generation(), "path", "bad"});
     }},
    {"EngineFailed", [](Bench& b) { return b.engine(EngineFailed{"bad"}); }},
    {"LinkLost", [](Bench& b) { return b.core.on(LinkEvent(LinkLost{kPeer}), b.now); }},
    {"LinkAwaited", [](Bench& b) { return b.core.on(LinkEvent(LinkAwaited{kPeer}), b.now); }},
    {"LinkMade", [](Bench& b) { return b.core.on(LinkEvent(LinkMade{kPeer}), b.now); }},
    {"BytesArrived", [](Bench& b) { return b.core.on(LinkEvent(BytesArrived{kPeer}), b.now); }},
    {"much later", [](Bench& b) { return b.core.tick(std::chrono::hours(1)); }},
};

// X: the core exits. A: it aborts. !: a bug was reported. S: sealed and reported. F: the report
// says that the job cannot continue. W: a wrong peer is suspected. P: another phase. e: another
// effect. .: no effect.
char outcome(const Effects& effects, Phase before, Phase after) {
  if (find<Exit>(effects) != nullptr) return 'X';
  if (find<Abort>(effects) != nullptr) return 'A';
  if (find<ReportAnomaly>(effects) != nullptr) return '!';
  if (to_head<Report>(effects) != nullptr) return 'S';
  if (to_head<Failed>(effects) != nullptr) return 'F';
  if (to_head<Suspect>(effects) != nullptr) return 'W';
  if (before != after) return 'P';
  return effects.empty() ? '.' : 'e';
}

// One row for each event, one column for each state.
// States: new, sealed, standby, waits for State, loads, ready, steps, updates, paused, failed,
// exited.
const std::vector<std::string> kTable = {
    "SSSS.SS.SF.",  // Prepare
    "...........",  // Prepare again
    "ee.........",  // Install
    "...........",  // Install, other
    ".....e.....",  // Go
    "...........",  // Go, other
    "...........",  // Drain
    "...........",  // Acknowledge
    "........e..",  // WriteCheckpoint
    "......ee...",  // Audit
    "...........",  // AuditPassed
    "...........",  // Decided
    "XXXXXXXXXX.",  // Release
    "...........",  // Contrib, old
    "......e....",  // Contrib
    "...........",  // Contrib, early
    "!!!!!!!!!..",  // Contrib, future
    "...........",  // Reduced
    "...........",  // Reduced, past
    "!!e!!e!!!..",  // Fetch
    "...e.......",  // State
    "....e......",  // VersionLoaded
    "......ee...",  // PartSummed
    "...........",  // BucketReduced
    ".......e...",  // UpdateApplied
    "...........",  // VersionExported
    "...........",  // EvaluationDone
    "......ee...",  // AuditDone
    "eeeeeeeee..",  // CheckpointFinished
    "WWWWWWWWW..",  // DataUnreadable
    "eeeeeeeee..",  // CheckpointDamaged
    "FFFFFFFFF..",  // EngineFailed
    "...........",  // LinkLost
    "...........",  // LinkAwaited
    "...........",  // LinkMade
    "...........",  // BytesArrived
    "...W..W....",  // A much later time.
};

TEST_SUITE("actors/worker/every state x every event") {
  TEST_CASE("each event has in each state the effects that the table lists") {
    std::vector<std::string> actual;
    for (const Event_& event : kEvents) {
      std::string row;
      for (const State_& state : kStates) {
        CAPTURE(event.name);
        CAPTURE(state.name);
        Bench bench;
        state.reach(bench);
        const Phase before = bench.core.phase();
        row += outcome(event.send(bench), before, bench.core.phase());
      }
      actual.push_back(row);
    }
    for (std::size_t i = 0; i < actual.size(); ++i) {
      INFO(kEvents[i].name);
      CHECK(actual[i] == (i < kTable.size() ? kTable[i] : "missing"));
    }
  }

  // Every state can be left: a newer Prepare seals in all of them, once the running computation has
  // ended.
  TEST_CASE("a new generation moves every living worker out of every state") {
    for (const State_& state : kStates) {
      CAPTURE(state.name);
      Bench bench;
      state.reach(bench);
      if (bench.core.phase() == Phase::kExited) continue;
      bench.head(Prepare{from_head(5)});
      bench.engine(VersionLoaded{5});
      if (bench.core.generation() != Generation{5}) bench.commit(5);
      CHECK(bench.core.generation() == Generation{5});
    }
  }
}

}  // namespace
}  // namespace es::actors::worker
