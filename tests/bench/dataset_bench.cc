// Measures how many samples of a job's data are loaded in a second, by threads that fill one
// mini-batch after the other, as the loaders of a worker do. dataset_speed.py compares the result
// with the DataLoader of PyTorch.
//
//   dataset_bench JOB.toml [--workers 2] [--batches 40]
//
// Each thread fills a mini-batch before the time begins. Prints samples per second. Relative paths
// in the job begin at the working directory.
#include <CLI/CLI.hpp>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "actors/base/job_file/job_file.h"
#include "actors/worker/job_model/job_model.h"
#include "store/dataset/sample_source.h"

namespace es::bench {
namespace {

struct Options {
  std::string job;
  std::uint32_t workers = 2;
  std::uint64_t batches = 40;
};

template <class Value>
Value value_of(Result<Value> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "dataset_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

int run(const Options& options) {
  const JobSpec spec = value_of(actors::read_job_file(options.job));
  const auto source = value_of(value_of(actors::JobModel::open(spec.model)).open_samples(spec));
  const auto sampler = value_of(store::EpochSampler::create({.samples = source->train_count(),
                                                             .max_p = spec.max_p,
                                                             .batch_size = spec.batch_size,
                                                             .seed = spec.seed}));
  std::atomic<std::uint64_t> next{0};
  std::barrier warm(options.workers + 1);
  const auto fill_until = [&](std::uint64_t end) {
    std::vector<float> words(spec.batch_size * static_cast<std::size_t>(source->layout().words()));
    for (std::uint64_t i = next++; i < end; i = next++) {
      const auto rank = static_cast<VirtualRank>(i % spec.max_p);
      const Status filled =
          store::fill_batch(*source, sampler, sampler.cursor(i / spec.max_p), rank, words);
      value_of(filled.ok() ? Result<int>(0) : Result<int>(filled.error()));
      if (i < options.workers) warm.arrive_and_wait();
    }
  };
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < options.workers; ++i)
    threads.emplace_back([&] { fill_until(options.workers + options.batches); });
  warm.arrive_and_wait();
  const auto begin = std::chrono::steady_clock::now();
  threads.clear();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.2f\n", static_cast<double>(options.batches * spec.batch_size) / seconds.count());
  return 0;
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  es::bench::Options options;
  CLI::App app("Samples of a job per second");
  app.add_option("job", options.job, "JOB.toml")->required();
  app.add_option("--workers", options.workers)->check(CLI::Range(1, 16));
  app.add_option("--batches", options.batches)->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  return es::bench::run(options);
}
