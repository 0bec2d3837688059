#pragma once
// Station is a Transport with events for which a test can wait. This file also has what the
// gateway's tests share.
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/zmq_transport.h"

namespace es::actors::test {

// A directory that only this user may enter. It is removed with its content at the end.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string ipc(const std::string& name) const { return "ipc://" + (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A frame whose head carries `number` (Head::request) and whose body has `words` words.
std::shared_ptr<const Frame> numbered_frame(std::uint64_t number, std::size_t words = 4);

// Options for tests: a beat every 20 ms. A short pause of a busy machine makes no peer count as
// dead.
TransportOptions quick_options(const PeerId& self, const std::string& endpoint = {});
// The same, but peers are dead after 200 ms, for tests that wait for exactly that.
TransportOptions impatient_options(const PeerId& self, const std::string& endpoint = {});

class Station {
 public:
  struct Seen {
    std::vector<std::string> events;  // "up ID", "down ID" and "frame ID NUMBER", in order.
    std::vector<std::string> log;
    std::vector<std::shared_ptr<const Frame>> frames;
    std::map<PeerId, access::Sender> senders;  // of the newest frame of each peer that has called
    std::size_t count(const std::string& event) const;
  };

  explicit Station(TransportOptions options);  // REQUIRES: the options are valid.

  Transport& operator*() { return *transport_; }
  Transport* operator->() { return transport_.get(); }
  void stop() { transport_.reset(); }

  // Blocks until the predicate holds. Returns false when it does not hold within a minute.
  bool wait(const std::function<bool(const Seen&)>& predicate);
  bool wait_for(const std::string& event, std::size_t count = 1);
  bool wait_frames(std::size_t count);
  // The same for the counters.
  bool wait_stats(const std::function<bool(const TransportStats&)>& predicate);
  Seen seen();
  // Head::request of the frames that were received, in order.
  std::vector<std::uint64_t> numbers();

 private:
  void add(const std::string& event, std::shared_ptr<const Frame> frame = nullptr);
  void note_sender(const PeerId& from, const access::Sender& sender);

  std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;  // Guarded by mutex_.
  std::unique_ptr<Transport> transport_;
};

}  // namespace es::actors::test
