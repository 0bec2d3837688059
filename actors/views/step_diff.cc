#include "actors/views/step_diff.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/base/job_file/job_file.h"
#include "actors/base/program/private_directory.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;
using store::LedgerFile;
using store::LedgerLine;

// A temporary directory, which the destructor removes.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

std::string file_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs the program to its end with its output in files. Returns its exit status, or -1.
int run_program(const std::vector<std::string>& words, const fs::path& out, const fs::path& err) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Files and not pipes, because nothing reads until the program has ended, and a full pipe would
    // stop it.
    const int o = ::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    const int e = ::open(err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (o >= 0) ::dup2(o, STDOUT_FILENO);
    if (e >= 0) ::dup2(e, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  if (pid < 0) return -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// One side of the comparison.
struct Side {
  const LedgerFile& ledger;
  const char* name;
  std::string device_type;
  std::string checkpoint;  // where the run begins; empty for the seed
};

// Returns the device type on which the ledger's step ran. If it ran on several types, the first one
// is used: at D2 all types give the same bits, and at D1 there is only one.
Result<std::string> device_type_at(const LedgerFile& ledger, Version version, const char* name) {
  const auto stages = parse_stages(ledger.placements);
  // The stages begin where the run began, which is not version 0 if it began from a checkpoint.
  Version end = ledger.lines.empty() ? 0 : ledger.lines.front().version - 1;
  if (stages && !ledger.placements.empty())
    for (const Stage& stage : *stages)
      if (version <= (end += stage.steps)) return stage.devices.counts.front().type.name;
  return usage_error(std::string(name) + " (" + ledger.job +
                     ") does not say on which devices step " + std::to_string(version) +
                     " ran: name their type with --device-" + (*name == 'A' ? "a" : "b"));
}

// Returns the version of a checkpoint from which the step can be reached, or no value.
std::optional<Version> usable_version(const std::string& checkpoint, Version step) {
  if (checkpoint.empty()) return std::nullopt;
  const auto reader = store::CheckpointReader::open(checkpoint);
  if (!reader || reader->head().version > step) return std::nullopt;
  return reader->head().version;
}

std::string nearest_checkpoint(const LedgerFile& ledger, Version step) {
  const auto newest = usable_version(ledger.checkpoint, step);
  // The newest checkpoint would save most steps, but it may lie behind the step or be removed
  // already.
  return newest ? ledger.checkpoint : ledger.from;
}

Result<worker::StepTrace> trace(const Side& side, Version version, const std::string& self,
                                const fs::path& scratch) {
  const fs::path spec = scratch / (std::string(side.name) + ".toml");
  std::ofstream(spec, std::ios::binary) << side.ledger.spec_toml;
  std::vector<std::string> words{
      self,       "trace-step",    spec.string(), "--step", std::to_string(version),
      "--device", side.device_type};
  if (!side.checkpoint.empty()) words.insert(words.end(), {"--from", side.checkpoint});
  const int status = run_program(words, scratch / "out", scratch / "err");
  if (status != 0)
    return failure("the re-run of " + std::string(side.name) +
                   " failed: " + file_text(scratch / "err"));
  return worker::decode_trace(file_text(scratch / "out"));
}

// If the repeated run does not begin in the state of the ledger, this remark says so.
std::string remark_on(const Side& side, Version version, const worker::StepTrace& trace) {
  const auto& lines = side.ledger.lines;
  const auto before = std::find_if(lines.begin(), lines.end(), [&](const LedgerLine& line) {
    return line.version + 1 == version;
  });
  if (before == lines.end() || !before->params_digest || *before->params_digest == trace.before)
    return {};
  return std::string(side.name) + " cannot be repeated on " + side.device_type +
         ": the parameters before step " + std::to_string(version) + " differ from its ledger's; ";
}

}  // namespace

std::string deep_text(const DeepDiff& deep) {
  if (!deep.found)
    return deep.remark + "the step run again on " + deep.a + " and on " + deep.b +
           " has the same bits: the difference is not in the kernels of these device types";
  return deep.remark + "first different result: " + deep.what + ": " + deep.digest_a + " on " +
         deep.a + ", " + deep.digest_b + " on " + deep.b;
}

DeepDiff compare(const worker::StepTrace& a, const worker::StepTrace& b) {
  DeepDiff deep;
  const std::size_t count = std::min(a.lines.size(), b.lines.size());
  for (std::size_t i = 0; i < count && !deep.found; ++i) {
    if (a.lines[i] == b.lines[i]) continue;
    deep.found = true;
    deep.what = a.lines[i].what;
    if (a.lines[i].what != b.lines[i].what) deep.what += " (here B has " + b.lines[i].what + ")";
    deep.digest_a = a.lines[i].digest.hex();
    deep.digest_b = b.lines[i].digest.hex();
  }
  if (!deep.found && a.lines.size() != b.lines.size()) {
    deep.found = true;
    deep.what = "number of results, " + std::to_string(a.lines.size()) + " and " +
                std::to_string(b.lines.size());
  }
  return deep;
}

Result<DeepDiff> diff_step(const LedgerFile& a, const LedgerFile& b, Version version,
                           const DeepOptions& options) {
  // Step version - 1 made this version, so the repeated run has to begin at or before version - 1.
  Side sides[] = {{a, "A", options.class_a, nearest_checkpoint(a, version - 1)},
                  {b, "B", options.class_b, nearest_checkpoint(b, version - 1)}};
  auto directory = make_temporary_directory();
  if (!directory) return directory.error();
  const Scratch scratch(*std::move(directory));
  std::vector<worker::StepTrace> traces;
  std::string remark;
  for (Side& side : sides) {
    if (side.device_type.empty()) {
      auto type = device_type_at(side.ledger, version, side.name);
      if (!type) return type.error();
      side.device_type = *std::move(type);
    }
    auto traced = trace(side, version, options.self, scratch.path());
    if (!traced) return traced.error();
    remark += remark_on(side, version, *traced);
    traces.push_back(*std::move(traced));
  }
  DeepDiff deep = compare(traces[0], traces[1]);
  deep.a = sides[0].device_type;
  deep.b = sides[1].device_type;
  deep.remark = std::move(remark);
  return deep;
}

}  // namespace es::actors
