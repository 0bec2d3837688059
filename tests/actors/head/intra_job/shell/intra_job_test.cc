// The intra-job scheduler of one job without its actor. tests/sim runs it with the other actors of
// the head.
#include "actors/head/intra_job/shell/intra_job.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "store/kv/memory_key_value_store.h"
#include "tests/actors/head/intra_job/shell/kept_mail.h"

namespace es::actors {
namespace {

// A disk that can be full.
class Disk : public store::KeyValueStore {
 public:
  explicit Disk(const bool& full) : full_(full) {}
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return pairs_.get(key);
  }
  Status write(const store::WriteBatch& batch, store::Durability durability) override {
    return full_ ? Status(failure("disk full")) : pairs_.write(batch, durability);
  }
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    return pairs_.scan(begin, end, visit);
  }
  Result<std::optional<store::KeyValue>> last(std::string_view begin,
                                              std::string_view end) const override {
    return pairs_.last(begin, end);
  }
  Status sync() override { return full_ ? Status(failure("disk full")) : Status(); }
  Status recover() override { return sync(); }

 private:
  const bool& full_;
  store::MemoryKeyValueStore pairs_;
};

struct Bench {
  bool disk_full = false;
  std::shared_ptr<HeadStore> store = std::make_shared<HeadStore>(std::make_unique<Disk>(disk_full));
  KeptMail mail;
  JobTimer timer{[](Instant) {}};
  std::unique_ptr<IntraJob> job;

  Bench() {
    REQUIRE(store->next_incarnation().ok());
    IntraJobOptions options{.job = "j", .record = {.id = "j", .spec_toml = "text"}};
    options.config.spec.max_p = 2;
    options.config.last_version = 10;
    options.unix_ms = [] { return std::uint64_t{0}; };
    job = IntraJob::create(std::move(options), {.store = store,
                                                .present_nodes = std::make_shared<PresentNodes>(),
                                                .mail = mail,
                                                .timer = timer,
                                                .clock = [] { return Instant{}; }})
              .value();
    job->start();
    job->on_inventory(Msg<wire::Inventory>::build({}, [](wire::Inventory::Builder b) {
      DeviceSet devices;
      devices.add({"a"}, 1);
      put(b.initDevices(1), devices);
      b.initNodes(1).set(0, "n");
    }));
  }
  void allocate() {
    job->on_allocation(
        *protocol::message_of(protocol::Allocation{.sequence = 1, .devices = {{"n", {"a"}, 0}}})
             .view());
  }
  void ask(MessageType type) {
    Frame frame{.envelope = {.type = type, .job = "j", .request = 4},
                .body = kj::heapArray<capnp::word>(0)};
    job->on_inbound({.from = "client/a", .frame = std::make_shared<const Frame>(std::move(frame))});
  }
  void follow() {
    job->on_inbound(from_client<wire::FollowJob>("client/a", 3, [](wire::FollowJob::Builder b) {
      b.setLogFromStart(true);
      b.setInfo(true);
    }));
  }
  bool node_has(MessageType type) const {
    const auto types = mail.types_to("node/n");
    return std::ranges::find(types, type) != types.end();
  }
};

TEST_SUITE("actors/head/intra_job") {
  TEST_CASE("a job asks the companion, and starts a process on the device that it is given") {
    Bench b;
    b.allocate();
    CHECK(b.node_has(MessageType::kStartWorker));
  }

  TEST_CASE("a process is started only after its incarnation is on the disk") {
    Bench b;
    b.disk_full = true;
    b.allocate();
    CHECK_FALSE(b.node_has(MessageType::kStartWorker));
    CHECK(b.mail.store_failures.size() == 1);
    b.disk_full = false;
    REQUIRE(b.store->recover().ok());
    b.job->on_store_recovered();
    CHECK(b.node_has(MessageType::kStartWorker));
  }

  TEST_CASE("a command is refused while the disk is full") {
    Bench b;
    b.disk_full = true;
    b.ask(MessageType::kPauseJob);
    const auto refusal = b.mail.last<wire::Refusal>();
    CHECK(refusal.envelope().request == 4);
    CHECK(std::string(refusal.view()->getMessage().cStr()).find("disk full") != std::string::npos);
  }

  TEST_CASE("a follower is told what the job does, and its end") {
    Bench b;
    b.follow();
    const std::size_t before = b.mail.types_to("client/a").size();
    b.allocate();
    CHECK(b.mail.types_to("client/a").size() > before);
    b.job->cancel_unasked();
    b.job->on_peer_down({"node/n"});
    CHECK(b.mail.last<wire::JobEvent>().view()->isEnded());
    CHECK(b.mail.count_to_cluster<protocol::JobEnded>() == 1);
  }

  TEST_CASE("a message that is no request about a job is refused by its number") {
    Bench b;
    b.ask(MessageType::kSubmitJob);
    CHECK(std::string(b.mail.last<wire::Refusal>().view()->getMessage().cStr())
              .starts_with("not a request about a job: message type "));
  }

  TEST_CASE("a message in the name of another worker is not believed") {
    Bench b;
    b.allocate();
    const auto message = Msg<wire::Failed>::build({.job = "j", .sender = {2}},
                                                  [](wire::Failed::Builder b) { b.setError("x"); });
    b.job->on_inbound({.from = "worker/9", .frame = message.frame()});
    CHECK(b.mail.count_to_cluster<protocol::JobEnded>() == 0);
  }
}

}  // namespace
}  // namespace es::actors
