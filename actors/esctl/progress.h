#pragma once
// Progress: shows a job while it trains. On a terminal one line that is rewritten, with a bar; else
// plain lines, about one for every 5 % of the steps and one for each change of state or devices.
#include <optional>
#include <string>

#include "actors/esctl/console.h"
#include "actors/esctl/views.h"

namespace es::actors::esctl {

// "step 27/60  loss 1.2345  512.3 samples/s  cpu-avx2:2  running"; the rate is that of now, and
// left out while the job does not step; a stage number when it matters.
std::string progress_text(const JobView& job);
// The same behind a bar, cut to `columns`. REQUIRES: columns >= 1.
std::string progress_bar(const JobView& job, int columns);

// Decides which updates are worth a plain line.
class PlainProgress {
 public:
  bool worth_a_line(const JobView& job);

 private:
  std::optional<JobView> shown_;
};

class Progress {
 public:
  // `quiet`: show nothing.
  Progress(Console& console, bool quiet) : console_(console), quiet_(quiet) {}
  // Ends a line that is still being rewritten.
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

}  // namespace es::actors::esctl
