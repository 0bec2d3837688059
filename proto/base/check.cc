#include "proto/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "proto/base/check_report.h"

namespace es {
namespace {

void print(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  // abort() flushes no stream, so the line would be lost if stderr had a buffer.
  std::fflush(stderr);
}

// Atomic, because a check can fail on one thread while another one still sets up the log.
std::atomic<void (*)(const std::string&)> report = print;

}  // namespace

void report_checks_to(void (*wanted)(const std::string&)) {
  report = wanted == nullptr ? print : wanted;
}

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  report.load()(std::string(file) + ":" + std::to_string(line) + ": check failed: " + condition +
                (detail.empty() ? "" : ": ") + detail);
  std::abort();
}

}  // namespace es
