// From which saved state a job continues when its nodes share no disk.
#include "actors/head/intra_job/core/saved_states.h"

#include <random>

#include "tests/actors/head/intra_job/core/head_bench.h"
#include "tests/support/seed.h"

namespace es::actors::intra_job {
namespace {

CheckpointRef state(Version version, std::set<std::string> nodes) {
  return {"/s/" + std::to_string(version), version, false, std::move(nodes), {{version, 1}, {}}};
}

using Questions = std::map<std::string, std::vector<CheckpointRef>>;

NodeNames names(std::set<std::string> nodes) {
  return std::make_shared<const std::set<std::string>>(std::move(nodes));
}

// The answers of three nodes: w whole, g gone, u unclear, . no answer yet, - the node is away.
SavedStates said(const CheckpointRef& state, const std::string& nodes) {
  SavedStates saved;
  std::set<std::string> present;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] != '-') present.insert("n" + std::to_string(i + 1));
  saved.set_nodes(names(present));
  saved.to_ask({state}, present);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string node = "n" + std::to_string(i + 1);
    if (nodes[i] == '-') continue;
    if (nodes[i] == 'w') saved.found(node, state, Sight::kWhole, "");
    if (nodes[i] == 'g') saved.found(node, state, Sight::kGone, "absent");
    if (nodes[i] == 'u') saved.found(node, state, Sight::kUnclear, "no answer of the disk");
  }
  return saved;
}

TEST_SUITE("actors/head/intra_job/saved_states") {
  TEST_CASE(
      "a state is gone only when all present nodes report so, and its writers are among them") {
    using Kind = RestartChoice::Kind;
    struct Case {
      const char* nodes;
      Kind kind;
    };
    // It was written on n1.
    for (const Case& c :
         {Case{"w..", Kind::kReadable}, Case{"ggw", Kind::kReadable}, Case{"-gw", Kind::kReadable},
          Case{"...", Kind::kAsking}, Case{"gg.", Kind::kAsking}, Case{"-g.", Kind::kAsking},
          Case{"-gg", Kind::kAway}, Case{"---", Kind::kAway}, Case{"ugg", Kind::kAway},
          Case{"gug", Kind::kAway}, Case{"ggg", Kind::kLost}, Case{"gg-", Kind::kLost}}) {
      CAPTURE(c.nodes);
      CHECK(said(state(7, {"n1"}), c.nodes).look(state(7, {"n1"})).kind == c.kind);
    }
    // No node is known to have written it, so nothing proves that it is gone.
    CHECK(said(state(7, {}), "ggg").look(state(7, {})).kind == Kind::kAway);
  }

  TEST_CASE("the verdict is that of a choice by all answers, whatever the order of the answers") {
    std::mt19937_64 random(test::seed("verdict"));
    const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::vector<CheckpointRef> states{state(9, {"n1"}), state(5, {"n2"}), state(2, {})};
    for (int history = 0; history < 300; ++history) {
      SavedStates saved;
      saved.set_nodes(names({"n1", "n2", "n3"}));
      // Either most nodes have a state or most do not, so that every kind occurs.
      const std::size_t whole = draw(2) == 0 ? 2 : 9;
      for (int event = 0; event < 40; ++event) {
        const std::string node = "n" + std::to_string(1 + draw(4));
        const CheckpointRef& about = states[draw(states.size())];
        saved.to_ask(states, draw(2) == 0 ? std::set<std::string>{node} : std::set<std::string>());
        const std::size_t what = draw(20);
        if (what == 0) saved.set_nodes(names({"n1", "n2", node}));
        if (what == 1) saved.forget(node);
        if (what == 2 && saved.nodes()->contains(node)) saved.failed_to_read(node, about, "no");
        if (what > 2)
          saved.found(node, about,
                      draw(whole) == 0 ? Sight::kWhole
                      : draw(8) == 0   ? Sight::kUnclear
                                       : Sight::kGone,
                      "");
        const RestartChoice choice = saved.choose(states);
        CHECK(saved.verdict(states).kind == choice.kind);
        CHECK(saved.verdict(states).state == choice.state);
      }
    }
  }

  TEST_CASE("an older state replaces a newer one only when the newer one is gone") {
    const CheckpointRef newer = state(9, {"n1"}), older = state(5, {"n2"});
    SavedStates saved;
    saved.set_nodes(names({"n2"}));
    CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n2", {newer}}});
    saved.found("n2", newer, Sight::kGone, "");
    CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n2", {older}}});
    saved.found("n2", older, Sight::kWhole, "");
    CHECK(saved.choose({newer, older}).kind == RestartChoice::Kind::kAway);
    CHECK(saved.choose({newer, older}).state == newer);
    CHECK(saved.choose({newer, older}).missing == std::set<std::string>{"n1"});
    saved.set_nodes(names({"n1", "n2"}));
    CHECK(saved.choose({newer, older}).kind == RestartChoice::Kind::kAsking);
    CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n1", {newer}}});
    saved.found("n1", newer, Sight::kGone, "damaged");
    CHECK(saved.to_ask({newer, older}, {}).empty());
    CHECK(saved.choose({newer, older}).kind == RestartChoice::Kind::kReadable);
    CHECK(saved.choose({newer, older}).state == older);
    CHECK(saved.choose({}).kind == RestartChoice::Kind::kStart);
    CHECK(saved.choose({newer}).kind == RestartChoice::Kind::kLost);
  }

  TEST_CASE(
      "an answer of a node that has left, or about another state at the path, does not count") {
    const CheckpointRef one = state(7, {"n1"});
    SavedStates saved = said(one, "w");
    CheckpointRef other = one;
    other.digests.params.high = 8;
    CHECK(saved.look(other).kind == RestartChoice::Kind::kAsking);
    saved.set_nodes(names({}));
    saved.set_nodes(names({"n1"}));
    CHECK(saved.look(one).kind == RestartChoice::Kind::kAsking);
    saved.found("n2", one, Sight::kWhole, "");  // It was never asked.
    CHECK(saved.look(one).at.empty());
  }

  TEST_CASE(
      "a state that is whole and cannot be read is requested again a limited number of times") {
    const CheckpointRef one = state(7, {"n1"});
    SavedStates saved = said(one, "w");
    for (int attempt = 0; attempt < 2; ++attempt) {
      saved.failed_to_read("n1", one, "the link broke");
      CHECK(saved.look(one).kind == RestartChoice::Kind::kAsking);
      CHECK(saved.to_ask({one}, {}) == Questions{{"n1", {one}}});
      saved.found("n1", one, Sight::kWhole, "");
    }
    saved.failed_to_read("n1", one, "the link broke");
    CHECK(saved.look(one).kind == RestartChoice::Kind::kAway);
    CHECK(saved.look(one).why == "the link broke");
  }

  TEST_CASE(
      "nodes that neither wrote a state nor are to load it are asked only if these cannot read "
      "it") {
    const CheckpointRef newer = state(9, {"n2"}), older = state(5, {"n3"});
    SavedStates saved;
    saved.set_nodes(names({"n1", "n2", "n3", "n4"}));
    CHECK(saved.to_ask({newer, older}, {"n4"}) == Questions{{"n2", {newer}}, {"n4", {newer}}});
    CHECK(saved.to_ask({newer, older}, {"n4"}).empty());
    CHECK(saved.choose({newer, older}).missing == std::set<std::string>{"n2", "n4"});
    saved.found("n4", newer, Sight::kGone, "absent");
    CHECK(saved.to_ask({newer, older}, {"n4"}).empty());
    SUBCASE("its writer can read it") {
      saved.found("n2", newer, Sight::kWhole, "");
      CHECK(saved.to_ask({newer, older}, {"n4"}).empty());
      CHECK(saved.choose({newer, older}).kind == RestartChoice::Kind::kReadable);
      // The job is given a device on another node.
      CHECK(saved.to_ask({newer, older}, {"n1"}) == Questions{{"n1", {newer}}});
      CHECK_FALSE(saved.answered(newer, {"n1"}));
    }
    SUBCASE("its writer cannot read it") {
      saved.found("n2", newer, Sight::kGone, "damaged");
      CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n1", {newer}}, {"n3", {newer}}});
      saved.found("n1", newer, Sight::kGone, "absent");
      CHECK(saved.to_ask({newer, older}, {}).empty());
      saved.found("n3", newer, Sight::kGone, "absent");
      CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n3", {older}}});
    }
    SUBCASE("its writer is away") {
      saved.set_nodes(names({"n1", "n3"}));
      CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n1", {newer}}, {"n3", {newer}}});
      saved.found("n1", newer, Sight::kGone, "absent");
      saved.found("n3", newer, Sight::kGone, "absent");
      // The user may give it up, so it has to be known what is older.
      CHECK(saved.to_ask({newer, older}, {}) == Questions{{"n3", {older}}});
      CHECK(saved.choose({newer, older}).kind == RestartChoice::Kind::kAway);
    }
  }

  TEST_CASE("nodes are listed as in a sentence") {
    CHECK(nodes_text({"a"}) == "node a");
    CHECK(nodes_text({"a", "b"}) == "nodes a and b");
    CHECK(nodes_text({"a", "b", "c"}) == "nodes a, b and c");
  }
}

DeviceId on(const char* node) {
  return {node, {"a"}, 0};
}

// Two nodes that share no disk. The job was saved on the first one at version 3, and is paused.
struct Apart {
  Apart() {
    JobRecord record;
    record.state = JobState::kPaused;
    record.generation = Generation{4};
    record.checkpoints = {state(3, {"one"})};
    bench.emplace(record, LedgerHistory{});
    bench->sight = [](const std::string& node, const CheckpointRef&) {
      return node == "one" ? Sight::kWhole : Sight::kGone;
    };
    present({"one", "two"});
  }
  Effects present(std::set<std::string> nodes) { return bench->event(NodesPresent(nodes)); }
  // Runs up to the Install.
  Effects begin_on_second_node() {
    bench->event(ResumeCommand{1});
    bench->allocate({on("two")});
    bench->hello(100);
    return bench->report(100, std::nullopt);
  }
  std::optional<Bench> bench;
};

TEST_SUITE("actors/head/intra_job/intra_job_saved") {
  TEST_CASE("a job that continues on another node gets its state from the node that has it") {
    Apart apart;
    const Effects effects = apart.begin_on_second_node();
    CHECK(message<Install>(effects).target == 3);
    CHECK(message<Install>(effects).source == Source(FromCheckpoint{"/s/3", "one"}));
    CHECK(apart.bench->core.may_read(Incarnation{100}, "/s/3"));
    CHECK_FALSE(apart.bench->core.may_read(Incarnation{100}, "/etc/passwd"));
    CHECK_FALSE(apart.bench->core.may_read(Incarnation{7}, "/s/3"));
    apart.bench->ready(100, 3);
    CHECK_FALSE(apart.bench->core.may_read(Incarnation{100}, "/s/3"));
    CHECK(apart.bench->core.state() == JobState::kRunning);
  }

  TEST_CASE("while the node with its state is away, a job holds no device, waits and reports why") {
    Apart apart;
    apart.present({"two"});
    Effects effects = apart.bench->event(ResumeCommand{1});
    REQUIRE_FALSE(all<Demand>(effects).empty());
    CHECK(all<Demand>(effects).back().exact == DeviceSet());
    CHECK(apart.bench->core.state() == JobState::kQueued);
    CHECK(apart.bench->core.waiting_for() ==
          "node one, which holds its newest saved state (version 3, /s/3)");
    effects = apart.present({"one", "two"});
    CHECK(all<DemandLifted>(effects).size() == 1);
    CHECK(apart.bench->core.waiting_for() == "at least 1 device");
  }

  TEST_CASE(
      "when the node with the state goes away during the transfer, the job gives its device back") {
    Apart apart;
    apart.begin_on_second_node();
    Effects effects = apart.present({"two"});
    CHECK(receivers<Prepare>(effects) == Ids{100});
    effects = apart.bench->report(100, std::nullopt);
    CHECK(receivers<Release>(effects) == Ids{100});
    CHECK(all<Demand>(effects).at(0).exact->empty());
    CHECK(apart.bench->core.phase() == Phase::kIdle);
    CHECK(apart.bench->core.record().checkpoints.front() == state(3, {"one"}));
  }

  TEST_CASE("when a node is lost before it answers, no job waits for its answer") {
    Apart apart;
    apart.bench->silent = {"one"};
    apart.bench->event(ResumeCommand{1});
    // The answer that it gave before does not count any more.
    apart.bench->event(NodeSaidHello{"one"});
    apart.bench->allocate({on("two")});
    apart.bench->hello(100);
    CHECK(apart.bench->core.waiting_for().starts_with("node one to say whether"));
    const Effects effects = apart.present({"two"});
    CHECK(apart.bench->core.waiting_for().starts_with("node one, which holds its newest"));
    CHECK(all<Demand>(effects).at(0).exact->empty());
  }

  // The node of the only member is lost while the job moves away from it.
  TEST_CASE("a node that is lost in the middle of a round does not delay the round") {
    JobRecord record;
    record.state = JobState::kRunning;
    record.generation = Generation{4};
    record.checkpoints = {state(3, {"one"})};
    record.known = {{Incarnation{1}, on("one"), "address", "host"}};
    Bench bench(record, LedgerHistory{});
    bench.sight = [](const std::string&, const CheckpointRef&) { return Sight::kGone; };
    bench.silent = {"one"};
    bench.event(NodesPresent(std::set<std::string>{"one", "two"}));
    bench.allocate({on("one"), on("two")});
    bench.report(1, 3);
    bench.ready(1, 3);
    REQUIRE(receivers<Drain>(bench.hello(100)) == Ids{1});
    REQUIRE(receivers<Prepare>(bench.exited(1)) == Ids{100});
    bench.report(100, std::nullopt);
    REQUIRE(bench.core.phase() == Phase::kPreparing);
    CHECK(bench.core.waiting_for().starts_with("node one to say whether"));
    // The time limit for the reports of workers is over, and does not concern the node.
    bench.now += std::chrono::hours(1);
    bench.core.tick(bench.now);
    CHECK(bench.core.phase() == Phase::kPreparing);
    CHECK(bench.core.next_tick().value_or(Instant::max()) > bench.now);
    const Effects effects = bench.event(NodesPresent(std::set<std::string>{"two"}));
    CHECK(receivers<Release>(effects) == Ids{100});
    CHECK(bench.core.phase() == Phase::kIdle);
    CHECK(bench.core.waiting_for() ==
          "node one, which holds its newest saved state (version 3, /s/3)");
  }

  TEST_CASE(
      "the user gives up a state whose node does not come back, and the answer names the state") {
    Apart apart;
    apart.present({"two"});
    const Effects effects = apart.bench->event(ResumeCommand{1, true});
    const CommandDone done = all<CommandDone>(effects).at(0);
    CHECK(done.status.ok());
    CHECK(done.note ==
          "gives up version 3 (/s/3 on node one); continues from the start of the job");
    CHECK(all<SaveRecord>(effects).back().record.checkpoints.empty());
    apart.bench->allocate({on("two")});
    apart.bench->hello(100);
    CHECK(message<Install>(apart.bench->report(100, std::nullopt)).target == 0);
  }

  TEST_CASE("nothing is given up while it can be read") {
    Apart apart;
    const CommandDone done = all<CommandDone>(apart.bench->event(ResumeCommand{1, true})).at(0);
    CHECK(done.status.ok());
    CHECK(done.note == "nothing is lost: its newest saved state can be read");
    CHECK(apart.bench->core.record().checkpoints.front() == state(3, {"one"}));
    CHECK(all<CommandDone>(apart.bench->event(ResumeCommand{2, true})).at(0).status.error().kind ==
          ErrorKind::kRefused);
  }

  TEST_CASE("the checkpoint from which a run began is one of its saved states") {
    Config config = Bench::config("", 4);
    config.start = FromCheckpoint{"/from"};
    config.start_version = 2;
    Bench bench(config);
    bench.sight = [](const std::string&, const CheckpointRef&) { return Sight::kGone; };
    bench.event(NodeSaidHello{"node"});
    CHECK(bench.core.waiting_for() ==
          "a node that can read its newest saved state (version 2, /from)");
    CHECK(all<CommandDone>(bench.event(ResumeCommand{1, true})).at(0).status.error().kind ==
          ErrorKind::kRefused);
    bench.sight = [](const std::string&, const CheckpointRef&) { return Sight::kWhole; };
    CHECK(all<DemandLifted>(bench.event(NodeSaidHello{"node"})).size() == 1);
  }

  TEST_CASE("a job that cannot be saved reports why it keeps its devices, and tries again") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    bench.event(Allocation{++bench.sequence, bench.releases, {}, true});
    // Neither to the directory of the head nor to that of the node.
    const auto fail = [&](Effects effects) {
      for (int directory = 0; directory < 2; ++directory) {
        const WriteCheckpoint asked = message<WriteCheckpoint>(effects);
        CHECK(asked.make_parent);
        effects = bench.say(CheckpointWritten{.stamp = bench.stamp(1),
                                              .request = asked.request,
                                              .path = asked.directory,
                                              .version = 1,
                                              .digests = {},
                                              .error = "no space left"});
      }
      return effects;
    };
    CHECK(all<DevicesKept>(fail(bench.drained(1, 1))).at(0).reason ==
          "no space left; no space left");
    bench.round({1}, 1, {1});
    CHECK(bench.core.next_tick() == bench.now + kSaveAgainAfter);
    bench.now += kSaveAgainAfter;
    CHECK(receivers<Drain>(bench.core.tick(bench.now)) == Ids{1});
    CHECK(all<DevicesKept>(fail(bench.drained(1, 1))).empty());  // It was reported already.
    bench.round({1}, 1, {1});
    const Effects given = bench.allocate({device(0)});
    CHECK(all<DevicesKept>(given).at(0).reason.empty());
  }
}

}  // namespace
}  // namespace es::actors::intra_job
