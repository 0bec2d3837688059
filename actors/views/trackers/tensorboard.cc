#include "actors/views/trackers/tracker.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "store/checkpoint/file_system.h"
#include "store/checkpoint/new_file.h"

namespace es::actors {
namespace {

class TensorBoard final : public Tracker {
 public:
  explicit TensorBoard(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::string name() const override { return "event files in " + directory_.string(); }

  Result<LastSteps> begin(const TrackedJob& job) override {
    // TensorBoard shows each directory as a run, and looks for files with this beginning.
    const std::filesystem::path run = directory_ / job.id;
    ES_RETURN_IF_ERROR(store::make_directories(store::posix_file_system(), run));
    const auto seconds = static_cast<std::uint64_t>(job.submitted_unix_s);
    path_ = run / ("events.out.tfevents." + std::to_string(seconds) + ".esctl");
    file_.open(path_, std::ios::binary | std::ios::trunc);
    ES_RETURN_IF_ERROR(write(store::event_file_header(job.submitted_unix_s)));
    return LastSteps{};
  }

  Status add(std::span<const store::Scalar> points, double unix_s) override {
    return write(store::encode_events(unix_s, points));
  }

  Status end(const std::string&) override { return {}; }

 private:
  Status write(const std::string& bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file_.flush();
    if (file_) return {};
    return failure(path_.string() + ": " + std::generic_category().message(errno));
  }

  const std::filesystem::path directory_;
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace

std::unique_ptr<Tracker> tensorboard_tracker(std::filesystem::path directory) {
  return std::make_unique<TensorBoard>(std::move(directory));
}

}  // namespace es::actors
