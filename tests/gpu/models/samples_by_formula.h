#pragma once
// Numbers that make_reference.py and the tests of the models compute by the same formula.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/job_spec.h"
#include "proto/base/sample_layout.h"

namespace es::test {

// `count` numbers in [-0.5, 0.5) that depend on the name and the position.
std::vector<float> fill(const std::string& name, std::size_t count);
// `count` integers in [0, bound), computed in the same way.
std::vector<std::int32_t> integers(const std::string& name, std::size_t count, std::uint32_t bound);

// Sizes of the samples of every task. The defaults are those of make_reference.py.
struct SampleSizes {
  std::int64_t side = 36, tokens = 20, boxes = 5;
  std::int32_t classes = 10, vocabulary = 50, users = 30, items = 40;
};
SampleLayout sample_layout(Task task, const SampleSizes& sizes = {});

// The mini-batch of make_reference.py for the task, field after field.
std::vector<float> reference_batch(Task task, const SampleSizes& sizes, std::int64_t batch);

}  // namespace es::test
