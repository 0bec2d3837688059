#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gpu/engine/engine.h"
#include "gpu/engine/frozen_replica.h"

namespace es::gpu {
namespace {

SampleLayout images(std::int64_t side) {
  return {{{.name = "image", .height = side, .width = side, .channels = 3},
           {.name = "label", .type = FieldType::kI32, .high = 9}}};
}

JobSpec spec_of(std::uint32_t width, std::uint32_t batch_size) {
  JobSpec spec;
  spec.max_p = 1;
  spec.batch_size = batch_size;
  spec.steps = 1;
  spec.level = DeterminismLevel::kD2;
  spec.model = {.name = "small_cnn", .width = width, .classes = 10};
  return spec;
}

// Its parameters are larger than what earlier tests have freed and malloc still has.
constexpr std::uint32_t kLargeWidth = 1200;

// At most `more` bytes beyond the memory that this process has mapped.
void limit_memory(std::uint64_t more) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit both{limit, limit};
  ::setrlimit(RLIMIT_AS, &both);
}

// The result of `work` in a process of its own.
template <class Work>
std::string in_child(Work work) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = work();
    const bool written = ::write(ends[1], text.data(), text.size()) == ssize_t(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char piece[512];
  for (ssize_t got; (got = ::read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, got);
  ::close(ends[0]);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  return text;
}

}  // namespace

TEST_SUITE("gpu/missing_memory") {
  TEST_CASE(
      "activations that are too large for any machine are an error with model, purpose and bytes") {
    const auto engine = Engine::create(spec_of(256, 65536), images(224), {});
    REQUIRE_FALSE(engine.ok());
    const std::string& message = engine.error().message;
    CAPTURE(message);
    CHECK(engine.error().kind == ErrorKind::kFailure);
    CHECK(message.find("model small_cnn, batch_size 65536: not enough memory for activations and "
                       "their gradients: ") == 0);
    CHECK(message.find(" bytes are wanted, this machine has ") != std::string::npos);
  }

  TEST_CASE("memory that the system refuses is the same error, and the engine can be used again") {
    const auto message = in_child([] {
      auto engine = *Engine::create(spec_of(kLargeWidth, 1), images(8), {});
      limit_memory(8 << 20);
      const Status made = engine->init_replica();
      return made.ok()
                 ? "no error"
                 : made.error().message + "/" + std::to_string(engine->replica().params.floats());
    });
    const std::int64_t floats =
        (*Engine::create(spec_of(kLargeWidth, 1), images(8), {}))->table().total_floats();
    REQUIRE(floats * 4 > 16 << 20);
    CAPTURE(message);
    CHECK(message.find("model small_cnn, batch_size 1: not enough memory for the parameters: " +
                       std::to_string(floats * 4) + " bytes are wanted") == 0);
    CHECK(message.ends_with("/0"));  // The state has not changed.
  }

  TEST_CASE("a frozen version that cannot be copied is given up, and its reader gets an error") {
    const auto message = in_child([] {
      Replica live;
      live.params = AlignedBuffer(16 << 20);
      FrozenReplica frozen(live, live.params.floats());
      limit_memory(8 << 20);
      frozen.thaw();
      std::byte first;
      const Status read = frozen.read(0, 0, {&first, 1});
      return read.ok() ? "no error" : read.error().message;
    });
    CAPTURE(message);
    CHECK(message.find("not enough memory for a copy of the version: 67108864 bytes are wanted") ==
          0);
  }
}

}  // namespace es::gpu
