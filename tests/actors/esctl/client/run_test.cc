// `esctl run` with a stand-in for the daemon (fake_easyscaled.cc): what it prints and returns for
// every end of the job and of the daemon, and that it leaves nothing behind.
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/actors/esctl/session.h"
#include "tests/store/temp_directory.h"
#include "tests/support/places.h"

namespace es::actors::test {
namespace {

using Json = nlohmann::json;

class Bench {
 public:
  explicit Bench(const char* mode) {
    std::filesystem::create_directory(directory_ / "tmp");
    ::setenv("TMPDIR", (directory_ / "tmp").c_str(), 1);
    ::setenv("EASYSCALED", es::test::program_beside("fake_easyscaled").c_str(), 1);
    ::setenv("FAKE_MODE", mode, 1);
    ::setenv("FAKE_LOG", (directory_ / "log").c_str(), 1);
    es::test::write_file(directory_ / "job.toml", job_toml());
  }
  ~Bench() {
    for (const char* name : {"TMPDIR", "EASYSCALED", "FAKE_MODE", "FAKE_LOG"}) ::unsetenv(name);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  int run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"run", (directory_ / "job.toml").string(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return session.run(arguments);
  }
  Json json() const { return Json::parse(session.out()); }
  // The requests that the daemon received, as words.
  std::string asked() const {
    std::string text;
    std::istringstream lines(es::test::read_file(directory_ / "log"));
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("pid ")) text += (text.empty() ? "" : " ") + line;
    return text;
  }
  bool nothing_is_left() const {
    const std::string log = es::test::read_file(directory_ / "log");
    const bool daemon_gone =
        log.empty() || (::kill(std::stoi(log.substr(4)), 0) != 0 && errno == ESRCH);
    return daemon_gone && std::filesystem::is_empty(directory_ / "tmp");
  }
  std::filesystem::path path(const std::string& name) const { return directory_ / name; }

  Session session;

 private:
  es::test::TempDirectory directory_;
};

}  // namespace

TEST_SUITE("actors/esctl/run") {
  TEST_CASE("a job that finishes gives its summary and leaves nothing") {
    Bench bench("finish");
    CHECK(bench.run() == 0);
    CHECK(bench.json().at("state") == "finished");
    CHECK(bench.json().at("steps") == 60);
    CHECK(bench.session.err().find("step 30/60") != std::string::npos);
    CHECK(bench.asked() == "submit follow describe shutdown");
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("quiet prints only the summary") {
    Bench bench("finish");
    CHECK(bench.run({"--quiet"}) == 0);
    CHECK(bench.session.err().empty());
  }

  TEST_CASE("a job that fails is printed like one that finished, with the reason") {
    Bench bench("fail");
    CHECK(bench.run() == 1);
    CHECK(bench.json().at("state") == "failed");
    CHECK(bench.json().at("error") == "worker 7: loss is not finite");
    CHECK(bench.session.err().find("worker 7: loss is not finite") != std::string::npos);
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("a refused job gives the refusal's exit code") {
    Bench bench("refuse");
    CHECK(bench.run() == 4);
    CHECK(bench.json().at("error") == "no room");
    CHECK(bench.asked() == "submit shutdown");
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("Ctrl-C cancels the job and ends in good order") {
    Bench bench("interrupt");
    CHECK(bench.run() == 130);
    CHECK(bench.json().at("state") == "cancelled");
    CHECK(bench.asked() == "submit follow cancel describe shutdown");
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("Ctrl-C writes a checkpoint first when one is wanted") {
    Bench bench("interrupt");
    CHECK(bench.run({"--checkpoint", bench.path("new").string()}) == 130);
    CHECK(bench.asked() == "submit checkpoint follow cancel describe shutdown");
    CHECK(bench.session.err().find("stopping job cnn-1 with a checkpoint") != std::string::npos);
  }

  TEST_CASE("a checkpoint that cannot be written is an error of the run, however the job ended") {
    Bench finished("finish unwritten");
    const std::string place = finished.path("new").string();
    CHECK(finished.run({"--checkpoint", place}) == 1);
    CHECK(finished.json().at("state") == "finished");
    CHECK(finished.session.err().find("no checkpoint is written: disk full") != std::string::npos);
    Bench stopped("interrupt unwritten");
    CHECK(stopped.run({"--checkpoint", stopped.path("new").string()}) == 1);
    CHECK(stopped.session.err().find("no checkpoint is written: disk full") != std::string::npos);
    Bench elsewhere("finish elsewhere");
    CHECK(elsewhere.run({"--checkpoint", elsewhere.path("new").string()}) == 1);
    CHECK(elsewhere.session.err().find(
              "the checkpoint of step 30 is in /checkpoints/1, because it "
              "could not be written to the directory of --checkpoint: disk full") !=
          std::string::npos);
  }

  TEST_CASE("a directory that cannot take the checkpoint is reported before anything is started") {
    Bench bench("finish");
    CHECK(bench.run({"--checkpoint", bench.path("no/such/directory").string()}) == 3);
    CHECK(bench.run({"--checkpoint", bench.path("tmp").string()}) == 4);
    CHECK(bench.asked().empty());
  }

  TEST_CASE("a run reports at its beginning and at its end that it keeps no weights") {
    Bench bench("finish");
    CHECK(bench.run() == 0);
    CHECK(bench.json().at("weights").is_null());
    CHECK(bench.session.err().find(
              "the weights of this run will not be kept; --checkpoint DIR keeps them") !=
          std::string::npos);
    CHECK(bench.session.run({"run", bench.path("job.toml").string(), "--quiet"}) == 0);
    CHECK(bench.session.out().find("The weights are not kept. With --checkpoint DIR they are.") !=
          std::string::npos);
    CHECK(bench.run({"--checkpoint", bench.path("new").string()}) == 0);
    CHECK(bench.session.err().find("will not be kept") == std::string::npos);
  }

  TEST_CASE("a second Ctrl-C kills a daemon that does not react") {
    Bench bench("stubborn");
    CHECK(bench.run() == 130);
    CHECK(bench.json().at("error") == "interrupted");
    CHECK(bench.asked().starts_with("submit follow cancel"));
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("SIGTERM before the daemon is ready ends the run") {
    Bench bench("deaf");
    CHECK(bench.run() == 143);
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("when a daemon ends early, the error quotes it and has the kind of its exit code") {
    Bench bench("die");
    CHECK(bench.run() == 4);
    CHECK(bench.session.err().find("state directory is occupied") != std::string::npos);
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("when a daemon vanishes, the run fails and prints its last words") {
    Bench bench("vanish");
    CHECK(bench.run() == 1);
    CHECK(bench.session.err().find("segment is gone") != std::string::npos);
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("--keep leaves the log of the daemon in a new directory, and never in a used one") {
    Bench bench("finish");
    const std::string keep = bench.path("kept/here").string();
    CHECK(bench.run({"--keep", keep}) == 0);
    CHECK(std::filesystem::exists(bench.path("kept/here/easyscaled.log")));
    CHECK(bench.run({"--keep", keep}) == 4);
    CHECK(bench.nothing_is_left());
  }

  TEST_CASE("an error in the request is reported before a daemon is started") {
    Bench bench("finish");
    CHECK(bench.run({"--devices", "cpu-mmx:1"}) == 2);
    CHECK(bench.session.err().find("cpu-avx2") != std::string::npos);
    CHECK(bench.run({"--from", "/nonexistent/checkpoint"}) == 3);
    CHECK(bench.run({"--checkpoint", bench.path("job.toml").string()}) == 4);
    es::test::write_file(bench.path("job.toml"), "max_p = 64\nsteps = 1\n");
    CHECK(bench.run({"--devices", "cpu-scalar:60"}) == 4);
    CHECK(bench.session.err().find("more devices than this machine offers") != std::string::npos);
    ::setenv("EASYSCALED", "/nonexistent/easyscaled", 1);
    CHECK(bench.run() == 3);
    CHECK(bench.asked().empty());
    CHECK(bench.nothing_is_left());
  }
}

}  // namespace es::actors::test
