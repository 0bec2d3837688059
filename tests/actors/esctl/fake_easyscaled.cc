// A stand-in for easyscaled in tests of `esctl run`. It takes the same options, answers like a
// head, and behaves as the environment variable FAKE_MODE says. It appends the requests that it
// receives to the file FAKE_LOG.
//
//   finish     the job trains and finishes
//   fail       the job fails
//   refuse     the job is refused
//   interrupt  esctl gets SIGINT while it follows the job; then the job ends normally
//   stubborn   as interrupt, but CancelJob is answered by a second SIGINT; then only SIGKILL
//              ends the daemon
//   vanish     the daemon ends without a message when a job is submitted
//   die        the daemon prints an error and ends before it is ready
//   deaf       esctl gets SIGTERM before the daemon is ready
//
// A mode that ends with " unwritten" writes no checkpoint. A mode that ends with " elsewhere"
// writes it in another directory than the wanted one.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <fstream>
#include <future>
#include <iostream>

#include "tests/actors/esctl/session.h"
#include "tests/actors/views/fake_head.h"

namespace es::actors::test {
namespace {

using Request = std::shared_ptr<const Frame>;

struct Options {
  bool head = false;
  std::string state, listen, node, devices, run_dir, rescue;
  int parent_pid = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("fake");
  app.add_flag("--head", options.head)->required();
  app.add_option("--state", options.state)->required();
  app.add_option("--listen", options.listen)->required();
  app.add_option("--node", options.node)->required();
  app.add_option("--devices", options.devices)->required();
  app.add_option("--run-dir", options.run_dir)->required();
  app.add_option("--rescue", options.rescue);
  bool no_rescue = false;
  app.add_flag("--no-rescue", no_rescue);
  app.add_option("--parent-pid", options.parent_pid)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

void note(const std::string& line) {
  std::ofstream(std::getenv("FAKE_LOG"), std::ios::app) << line << std::endl;
}

// One job, and the end of the daemon.
class Script {
 public:
  Script(std::string mode, Options options, FakeHead& head)
      : mode_(mode.substr(0, mode.find(' '))),
        checkpoint_(mode.substr(mode.find(' ') + 1)),
        options_(std::move(options)) {
    on(head, MessageType::kSubmitJob, "submit", [this](const Request& r) { return submit(r); });
    on(head, MessageType::kFollowJob, "follow", [this](const Request& r) { return follow(r); });
    on(head, MessageType::kDescribeJob, "describe", [this](const Request& r) {
      return Frames{reply<wire::JobDetails>(r, [&](wire::JobDetails::Builder b) {
        fill_job(b.initInfo(), "cnn-1", state_);
        b.setSpecToml(job_toml());
      })};
    });
    on(head, MessageType::kCancelJob, "cancel", [this](const Request& r) { return cancel(r); });
    on(head, MessageType::kCheckpointJob, "checkpoint", [this](const Request& r) {
      if (checkpoint_ == "unwritten") return Frames{refusal(r, ErrorKind::kFailure, "disk full")};
      return Frames{reply<wire::CheckpointTaken>(r, [&](wire::CheckpointTaken::Builder b) {
        b.setPath("/checkpoints/1");
        b.setVersion(30);
        if (checkpoint_ == "elsewhere") b.setFirstError("disk full");
      })};
    });
    on(head, MessageType::kShutdown, "shutdown", [this](const Request& r) {
      if (mode_ == "stubborn") return Frames{};
      ended_.set_value();
      return Frames{done(r)};
    });
  }

  void wait_for_end() { ended_.get_future().wait(); }

 private:
  void on(FakeHead& head, MessageType type, std::string name, FakeHead::Handler handler) {
    head.on(type, [name, handler](const Request& request) {
      note(name);
      return handler(request);
    });
  }

  Frames submit(const Request& request) {
    if (mode_ == "vanish") {
      std::cerr << "segment is gone" << std::endl;
      ::_exit(1);
    }
    if (mode_ == "refuse") return {refusal(request, ErrorKind::kRefused, "no room")};
    return {
        reply<wire::JobAccepted>(request, [](wire::JobAccepted::Builder b) { b.setJob("cnn-1"); })};
  }

  Frames follow(const Request& request) {
    const auto info = [&](const std::string& state) {
      return reply<wire::JobEvent>(
          request, [&](wire::JobEvent::Builder b) { fill_job(b.initInfo(), "cnn-1", state); });
    };
    if (mode_ == "interrupt" || mode_ == "stubborn") {
      ::kill(options_.parent_pid, SIGINT);
      return {info("running")};
    }
    state_ = mode_ == "fail" ? "failed" : "finished";
    return {info("running"), info(state_),
            reply<wire::JobEvent>(request, [](auto b) { b.setEnded(); })};
  }

  Frames cancel(const Request& request) {
    if (mode_ == "stubborn") {
      ::kill(options_.parent_pid, SIGINT);
      return {};
    }
    state_ = "cancelled";
    return {done(request)};
  }

  const std::string mode_;
  const std::string checkpoint_;
  const Options options_;
  std::string state_ = "running";
  std::promise<void> ended_;
};

int fake_main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::string mode = std::getenv("FAKE_MODE");
  note("pid " + std::to_string(::getpid()));
  if (mode == "die") {
    std::cerr << "state directory is occupied" << std::endl;
    return exit_code(ErrorKind::kRefused);
  }
  if (mode == "deaf") {
    ::kill(options.parent_pid, SIGTERM);
    ::pause();
  }
  if (mode == "stubborn") ::signal(SIGTERM, SIG_IGN);
  FakeHead head(options.listen);
  Script script(mode, options, head);
  std::cout << "ready " << options.listen << std::endl;
  script.wait_for_end();
  return 0;
}

}  // namespace
}  // namespace es::actors::test

int main(int argc, char** argv) {
  return es::actors::test::fake_main(argc, argv);
}
