// What clients ask about a job, and their answers.
#include "actors/head/intra_job/shell/job_requests.h"

#include <doctest/doctest.h>

#include "actors/head/intra_job/shell/client_commands.h"
#include "tests/actors/head/intra_job/shell/kept_mail.h"
#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

using namespace intra_job;

Inbound scale(const std::string& devices, std::uint64_t number = 1) {
  return from_client<wire::ScaleJob>("client/a", number, [&](auto b) { b.setDevices(devices); });
}
Inbound budget(double most) {
  return from_client<wire::BudgetJob>("client/a", 1, [&](auto b) { b.setBudget(most); });
}
Inbound checkpoint(const std::string& directory) {
  return from_client<wire::CheckpointJob>("client/a", 1,
                                          [&](auto b) { b.setDirectory(directory); });
}
Inbound pause(const PeerId& client, std::uint64_t number) {
  return from_client<wire::PauseJob>(client, number, [](auto) {});
}

struct Bench {
  KeptMail mail;
  RequestNumbers numbers{Generation{3}};
  JobRequests requests{ClientAnswers("j", mail), numbers};

  std::uint64_t pause_of(const PeerId& client, std::uint64_t number) {
    const auto event = requests.take_command(pause(client, number));
    REQUIRE(event);
    return std::get<PauseCommand>(*event).request;
  }
};

TEST_SUITE("actors/head/intra_job/job_requests") {
  TEST_CASE("a request becomes the command of the core") {
    const auto exact = command_of(scale("cpu-avx2:2"));
    REQUIRE(exact.ok());
    CHECK(std::get<ScaleCommand>(*exact).devices->text() == "cpu-avx2:2");
    const auto free = command_of(scale(""));
    REQUIRE(free.ok());
    CHECK_FALSE(std::get<ScaleCommand>(*free).devices);
    const auto most = command_of(budget(12.5));
    REQUIRE(most.ok());
    CHECK(std::get<BudgetCommand>(*most).budget == 12.5);
  }

  TEST_CASE("a request with values that are not allowed is refused and says what is allowed") {
    CHECK_FALSE(command_of(scale("two devices")).ok());
    CHECK_FALSE(command_of(scale(std::string("a\0b", 3))).ok());
    CHECK(command_of(budget(-1)).error().message ==
          "budget: allowed is a number from 0 to 1e12; 0 for no budget");
    const test::TempDirectory there;
    const auto taken = command_of(checkpoint(there.path().string()));
    REQUIRE_FALSE(taken.ok());
    CHECK(taken.error().kind == ErrorKind::kRefused);
    CHECK(command_of(checkpoint((there / "new").string())).ok());
  }

  TEST_CASE("every command has a number of its own, and its answer goes to the client that asked") {
    Bench b;
    const std::uint64_t first = b.pause_of("client/a", 7);
    const std::uint64_t second = b.pause_of("client/b", 7);
    CHECK(first == (std::uint64_t{3} << 32) + 1);
    CHECK(second == first + 1);
    b.requests.answer(CommandDone{second, {}, "paused"});
    REQUIRE(b.mail.frames.size() == 1);
    CHECK(b.mail.frames[0].first == "client/b");
    const auto done = b.mail.last<wire::Done>();
    CHECK(done.envelope().request == 7);
    CHECK(done.view()->getNote() == "paused");
    b.requests.answer(CommandDone{first, refused("not now")});
    CHECK(b.mail.frames[1].first == "client/a");
    CHECK(b.mail.last<wire::Refusal>().view()->getMessage() == "not now");
  }

  TEST_CASE("a command is answered once, and one that no client has given never") {
    Bench b;
    const std::uint64_t number = b.pause_of("client/a", 7);
    b.requests.answer(CommandDone{number, {}});
    b.requests.answer(CommandDone{number, {}});
    b.requests.answer(CommandDone{0, {}});
    CHECK(b.mail.frames.size() == 1);
  }

  TEST_CASE("a refused request gets no number") {
    Bench b;
    CHECK_FALSE(b.requests.take_command(budget(-1)));
    CHECK(b.mail.types_to("client/a") == std::vector{MessageType::kRefusal});
    CHECK(b.numbers.next() == (std::uint64_t{3} << 32) + 1);
  }

  TEST_CASE("open commands are refused when the disk fails, and their answers go nowhere") {
    Bench b;
    const std::uint64_t number = b.pause_of("client/a", 7);
    b.requests.refuse_commands(failure("disk full"));
    CHECK(b.mail.last<wire::Refusal>().view()->getMessage() ==
          "disk full; the request is performed when the state directory can be written again");
    b.requests.answer(CommandDone{number, {}});
    CHECK(b.mail.frames.size() == 1);
  }

  TEST_CASE("a list of plans goes to its client, once") {
    Bench b;
    const std::uint64_t number =
        b.requests.take_plan_list(from_client<wire::ListPlans>("client/a", 5, [](auto) {}));
    const auto client = b.requests.plan_list_of(number);
    REQUIRE(client);
    CHECK(client->client == "client/a");
    CHECK(client->number == 5);
    CHECK_FALSE(b.requests.plan_list_of(number));
  }
}

}  // namespace
}  // namespace es::actors
