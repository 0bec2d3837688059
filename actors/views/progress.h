#pragma once
// Progress: shows a job while it trains. On a terminal it rewrites one line with a bar. Otherwise
// it prints plain lines: about one for every 5 % of the steps, one for each evaluation, and one for
// each change of state or devices.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/views/console.h"
#include "actors/views/views.h"

namespace es::actors {

// For example "step 27/60  loss 1.2345  512.3 samples/s  9 s left  accuracy 37.50 %  cpu-avx2:2
// running". The rate is the current one; it and the time left are missing while the job makes no
// steps, and the metric is that of the newest evaluation. The stage number appears if there are
// several stages.
std::string progress_text(const JobView& job);
// The same text behind a bar, cut to `columns`. What has no room is left out: the metric, then the
// devices, then the bar. If the time left has no room either, it is left out in place of the
// others. REQUIRES: columns >= 1.
std::string progress_bar(const JobView& job, int columns);

// Decides which updates get a plain line.
class PlainProgress {
 public:
  bool worth_a_line(const JobView& job);

 private:
  std::optional<JobView> shown_;
};

class Progress {
 public:
  // With `quiet` it shows nothing.
  Progress(Console& console, bool quiet) : console_(console), quiet_(quiet) {}
  // Ends the line that is being rewritten.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const JobView& job);

 private:
  Console& console_;
  const bool quiet_;
  PlainProgress plain_;
  bool line_open_ = false;
};

// ByteProgress: shows how much of some files is done, in the same two ways.
class ByteProgress {
 public:
  // With `quiet` it shows nothing.
  ByteProgress(Console& console, bool quiet) : console_(console), quiet_(quiet) {}
  ~ByteProgress() { end(); }
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  // Returns a function that shows the progress of texts that are encoded, and never ends it.
  static std::function<bool(std::uint64_t done, std::uint64_t total)> of_texts(Console& console,
                                                                               bool quiet);

  // `total` is 0 if it is not known.
  void show(std::uint64_t done, std::uint64_t total);
  // Writes a line.
  void say(const std::string& text);
  // Ends the line that is being rewritten.
  void end();

 private:
  Console& console_;
  const bool quiet_;
  std::uint64_t shown_ = 0;  // of twenty plain lines
  bool line_open_ = false;
};

}  // namespace es::actors
