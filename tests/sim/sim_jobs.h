#pragma once
// Jobs for the simulated world, and the conditions that every one of them has to satisfy in the
// end.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "tests/sim/sim_world.h"
#include "tests/support/seed.h"

namespace es::test {

inline void for_each_seed(const char* name, std::uint64_t runs,
                          const std::function<void(std::uint64_t)>& run) {
  const std::uint64_t base = seed(name);
  for (std::uint64_t s = base; s < base + runs; ++s) {
    CAPTURE(s);
    INFO("replay with ES_SEED=" << s);
    run(s);
  }
}

inline JobSpec job_spec(std::uint64_t seed, Version steps, std::uint32_t max_p = 4) {
  JobSpec spec;
  spec.name = "toy";
  spec.seed = seed;
  spec.steps = steps;
  spec.max_p = max_p;
  return spec;
}

inline JobSpec staged_job(std::uint64_t seed, const std::string& stages, std::uint32_t max_p = 4) {
  JobSpec spec = job_spec(seed, 0, max_p);
  spec.level = DeterminismLevel::kD2;
  spec.stages = parse_stages(stages).value();
  for (const Stage& stage : spec.stages) spec.steps += stage.steps;
  return spec;
}

// The bits of an undisturbed run, on any devices.
inline void check_finished(const actors::JobView& view, const JobSpec& spec) {
  INFO(view.error);
  CHECK(view.state == "finished");
  CHECK(view.step == spec.steps);
  const auto digests = digests_of(reference_version(toy_job(spec), spec.steps));
  CHECK(view.params_digest == digests.params.hex());
  CHECK(view.state_digest == digests.state.hex());
}

// Nothing is left running or held, and no forbidden event happened.
inline void check_at_rest(SimWorld& world) {
  for (const auto& [device, job] : world.client().owners()) {
    INFO(device);
    CHECK(job == "");
  }
  CHECK(world.cluster().running.empty());
  for (const std::string& violation : world.cluster().violations) FAIL_CHECK(violation);
}

}  // namespace es::test
