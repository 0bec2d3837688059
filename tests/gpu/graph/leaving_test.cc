#include "gpu/graph/leaving.h"

#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/graph/fuse.h"
#include "gpu/models/models.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/step_rig.h"

TEST_SUITE("gpu/graph/leaving") {
  using namespace es::gpu;

  constexpr std::int64_t kFloatBytes = sizeof(float);

  // A gradient array whose memory the system counts.
  class CountedGradient {
   public:
    explicit CountedGradient(std::int64_t floats)
        : bytes_(static_cast<std::size_t>((floats * kFloatBytes + page() - 1) / page() * page())),
          data_(static_cast<char*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
      REQUIRE(data_ != MAP_FAILED);
      ::madvise(data_, bytes_, MADV_NOHUGEPAGE);
    }
    ~CountedGradient() { ::munmap(data_, bytes_); }
    CountedGradient(const CountedGradient&) = delete;
    CountedGradient& operator=(const CountedGradient&) = delete;

    static std::int64_t page() { return ::sysconf(_SC_PAGESIZE); }
    float* floats() { return reinterpret_cast<float*>(data_); }
    std::int64_t resident_bytes() const {
      std::vector<unsigned char> pages(bytes_ / static_cast<std::size_t>(page()));
      REQUIRE(::mincore(data_, bytes_, pages.data()) == 0);
      return page() * std::ranges::count_if(pages, [](unsigned char one) { return one & 1U; });
    }
    // Gives back the whole pages of these floats.
    void release(const Bucket& floats) {
      const std::int64_t begin = (floats.begin * kFloatBytes + page() - 1) / page() * page();
      const std::int64_t end = floats.end * kFloatBytes / page() * page();
      if (begin < end)
        REQUIRE(::madvise(data_ + begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED) ==
                0);
    }

   private:
    std::size_t bytes_;
    char* data_;
  };

  TEST_CASE(
      "a gradient whose buckets leave has the memory of the plan, and the bits of a whole one") {
    for (const char* name : {"mlp", "resnet18", "gpt2"})
      // Nothing waits, and up to three buckets wait.
      for (const std::int64_t waiting : {std::int64_t{0}, std::int64_t{60'000}}) {
        CAPTURE(name);
        CAPTURE(waiting);
        es::ModelSpec spec{.name = name, .classes = 10};
        es::test::SampleSizes sizes;
        if (spec.name == "mlp") spec.width = 700;
        if (spec.name != "mlp") spec.size = "tiny";
        const Program program =
            compile(*build_model(spec, 2, es::test::sample_layout(task_of(spec), sizes)));
        es::test::StepRig rig(Program(program), 7, {.bucket_floats = 20'000});
        const std::int64_t planned =
            kFloatBytes * leaving_floats(program, rig.executor->plan(), rig.buckets, waiting);
        const std::vector<std::uint32_t> whole = rig.step_bits();
        CountedGradient leaving(rig.grads.floats());
        std::vector<float> gradient(static_cast<std::size_t>(rig.grads.floats()));
        std::int64_t most = 0, waits = 0;
        std::uint32_t left = 1;
        LocalStep step = rig.step();
        step.gradient = leaving.floats();
        const auto run = rig.executor->run_local_step(step, [&](std::uint32_t bucket) {
          most = std::max(most, leaving.resident_bytes());
          const Bucket& floats = rig.buckets[bucket];
          std::copy_n(leaving.floats() + floats.begin, floats.floats(),
                      gradient.data() + floats.begin);
          if (bucket == 0) return;
          waits += floats.floats();
          for (; waits > waiting; ++left) {
            waits -= rig.buckets[left].floats();
            leaving.release(rig.buckets[left]);
          }
        });
        REQUIRE(run);
        MESSAGE(name, ": ", most, " bytes, planned ", planned, " of ", 4 * rig.grads.floats());
        // The plan counts floats and not pages.
        const auto pages = static_cast<std::int64_t>(rig.buckets.size()) + 8;
        CHECK(most <= planned + pages * CountedGradient::page());
        // What waits fills its room only with whole buckets.
        CHECK(most >= planned - kFloatBytes * waiting);
        CHECK(planned < kFloatBytes * rig.grads.floats());
        CHECK(std::memcmp(gradient.data(), whole.data() + 1, gradient.size() * sizeof(float)) == 0);
      }
  }
}
