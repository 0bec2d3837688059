// The only file that knows spdlog, whose headers take long to compile.
#include "actors/base/log/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>

#include "proto/base/check_report.h"

namespace es::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

struct Log {
  spdlog::logger logger{"easyscaled", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  Format format = Format::kText;
  About process;
};

// Never deleted, because threads may log until the process has ended. Null before start().
std::atomic<Log*> the_log = nullptr;

About merged(const About& line, const About& process) {
  return {.job = line.job.empty() ? process.job : line.job,
          .worker = line.worker == 0 ? process.worker : line.worker,
          .node = line.node.empty() ? process.node : line.node,
          .peer = line.peer.empty() ? process.peer : line.peer};
}

// Replaces the sink by the file. Throws spdlog::spdlog_ex if it cannot be opened.
void write_to_file(spdlog::logger& logger, const Options& options) {
  auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
      options.file, options.file_bytes_max, options.older_files);
  logger.sinks().front()->set_level(spdlog::level::err);
  logger.sinks().push_back(std::move(file));
}

}  // namespace

void write(Level level, std::string_view message, const About& about) {
  if (!enabled(level)) return;
  // Not null, because enabled() has returned true and the log is never deleted.
  Log& log = *the_log.load();
  const std::string line = format_line(
      {std::chrono::system_clock::now(), level, message, merged(about, log.process)}, log.format);
  log.logger.log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

Status start(const Options& options, const About& process) {
  auto* const log = new Log;
  try {
    if (!options.file.empty()) write_to_file(log->logger, options);
  } catch (const spdlog::spdlog_ex& error) {
    delete log;
    return failure("the log file " + options.file + " cannot be opened: " + error.what());
  }
  log->format = options.format;
  log->process = process;
  // format_line() makes the whole line, so spdlog adds nothing.
  log->logger.set_pattern("%v");
  log->logger.set_level(to_spdlog(options.level));
  // A file is buffered, and nothing may be lost when the process is aborted.
  log->logger.flush_on(spdlog::level::trace);
  // Published only when it is complete: other threads may log from this moment on.
  the_log = log;
  report_checks_to([](const std::string& text) { error(text); });
  return {};
}

bool enabled(Level level) {
  const Log* const log = the_log.load();
  return log != nullptr && log->logger.should_log(to_spdlog(level));
}

void debug(std::string_view message, const About& about) {
  write(Level::kDebug, message, about);
}
void info(std::string_view message, const About& about) {
  write(Level::kInfo, message, about);
}
void warning(std::string_view message, const About& about) {
  write(Level::kWarning, message, about);
}
void error(std::string_view message, const About& about) {
  write(Level::kError, message, about);
}

}  // namespace es::log
