// Measures the time until every EST of one device has its first mini-batch: with data workers that
// all ESTs share, as in a worker process, and with data workers for each EST, like the data loaders
// of separate training processes. Each set of data workers opens the data of the job and loads with
// `--workers` threads.
//
//   loader_bench JOB.toml --ests 8 [--workers 2] [--rounds 7]
//
// Prints one JSON line with medians in milliseconds, their spread, and the saving.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "actors/base/job_file/job_file.h"
#include "store/dataset/sample_source.h"

namespace es::bench {
namespace {

struct Options {
  std::string job;
  std::uint32_t ests = 8;
  std::uint32_t workers = 2;
  std::uint32_t rounds = 7;
};

[[noreturn]] void stop(const Error& error) {
  std::fprintf(stderr, "loader_bench: %s\n", error.message.c_str());
  std::exit(1);
}

std::shared_ptr<const store::SampleSource> open(const JobSpec& spec) {
  auto source = store::open_samples(spec);
  if (!source) stop(source.error());
  return *source;
}

// Opens the data and loads the first mini-batch of the ranks [begin, end) with a pool of threads.
void load_first(const JobSpec& spec, VirtualRank begin, VirtualRank end, std::uint32_t workers) {
  const auto source = open(spec);
  const auto sampler = store::EpochSampler::create({.samples = source->train_count(),
                                                    .max_p = spec.max_p,
                                                    .batch_size = spec.batch_size,
                                                    .seed = spec.seed});
  if (!sampler) stop(sampler.error());
  std::atomic<VirtualRank> next{begin};
  std::vector<std::jthread> pool;
  for (std::uint32_t i = 0; i < workers; ++i)
    pool.emplace_back([&] {
      std::vector<float> words(spec.batch_size * source->layout().words());
      for (VirtualRank rank = next++; rank < end; rank = next++)
        if (const Status s = store::fill_batch(*source, *sampler, {0, 0}, rank, words); !s.ok())
          stop(s.error());
    });
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / median(values);
}

int run(const Options& options) {
  const auto read = actors::read_job_file(options.job);
  if (!read) stop(read.error());
  JobSpec spec = *read;
  spec.max_p = options.ests;
  std::vector<double> shared, own;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    shared.push_back(milliseconds([&] { load_first(spec, 0, spec.max_p, options.workers); }));
    own.push_back(milliseconds([&] {
      std::vector<std::jthread> ests;
      for (VirtualRank rank = 0; rank < spec.max_p; ++rank)
        ests.emplace_back([&, rank] { load_first(spec, rank, rank + 1, options.workers); });
    }));
  }
  std::printf(
      "{\"job\": \"%s\", \"ests\": %u, \"workers\": %u, \"shared_ms\": %.3f, "
      "\"shared_spread\": %.3f, \"own_ms\": %.3f, \"own_spread\": %.3f, \"saving\": %.3f}\n",
      spec.name.c_str(), options.ests, options.workers, median(shared), spread(shared), median(own),
      spread(own), 1 - median(shared) / median(own));
  return 0;
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  es::bench::Options options;
  CLI::App app("Time to the first mini-batches, shared against separate data workers");
  app.add_option("job", options.job, "JOB.toml")->required();
  app.add_option("--ests", options.ests)->check(CLI::Range(1, 64));
  app.add_option("--workers", options.workers, "threads of one set")->check(CLI::Range(1, 16));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  return es::bench::run(options);
}
