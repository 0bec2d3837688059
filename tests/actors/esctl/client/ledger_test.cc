// Ledgers on the command line: they are shown, written to files and compared; and a step is run
// again.
#include <doctest/doctest.h>

#include <algorithm>

#include <bit>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/ledger_source.h"
#include "actors/views/ledger_view.h"
#include "actors/worker/state/step_trace.h"
#include "tests/actors/esctl/session.h"
#include "tests/actors/views/fake_head.h"
#include "tests/store/temp_directory.h"

namespace es::actors::test {
namespace {

using Json = nlohmann::json;

using store::LedgerFile;

LedgerFile ledger(Version first = 1, Version last = 4) {
  LedgerFile file;
  file.job = "cnn-1";
  file.spec = {1, 1};
  for (Version v = first; v <= last; ++v)
    file.lines.push_back({v, {1.0F, static_cast<float>(v)}, Digest{v, v}});
  return file;
}

struct Files {
  es::test::TempDirectory directory;
  Session session;
  std::string write(const char* name, const LedgerFile& file) {
    es::test::write_file(directory / name, store::encode_ledger_file(file));
    return (directory / name).string();
  }
  Json json() const { return Json::parse(session.out()); }
};

// The ledger of a job of six steps, two lines in each part.
Frames part(const std::shared_ptr<const Frame>& request) {
  return {reply<wire::LedgerPart>(request, [&](wire::LedgerPart::Builder b) {
    const auto read = Msg<wire::ReadLedger>::from_frame(request);
    const Version begin = std::max<Version>(
        1, read->decode([](wire::ReadLedger::Reader r) { return r.getBegin(); }).value());
    b.setSpecToml(job_toml());
    auto lines = b.initLines(2);
    for (unsigned i = 0; i < 2; ++i) {
      lines[i].setVersion(begin + i);
      lines[i].initLossBits(1).set(0, std::bit_cast<std::uint32_t>(0.5F));
      lines[i].initParams().setLow(begin + i);
    }
    b.setNext(begin + 2 > 6 ? 0 : begin + 2);
  })};
}

}  // namespace

TEST_SUITE("actors/esctl/ledger") {
  TEST_CASE("equal ledgers have no first difference, and lines that only one has are counted") {
    CHECK(compare(ledger(), ledger()).equal());
    const auto longer = compare(ledger(1, 4), ledger(3, 6));
    CHECK_FALSE(longer.first.has_value());
    CHECK(longer.compared == 2);
    CHECK(longer.only_a == 2);
    CHECK(longer.only_b == 2);
    CHECK_FALSE(longer.equal());
  }

  TEST_CASE("the first different step names the ESTs whose losses differ, bit by bit") {
    const LedgerFile a = ledger();
    LedgerFile b = ledger();
    b.lines[2].losses[1] = std::nextafter(b.lines[2].losses[1], 9.0F);
    b.lines[3].params_digest = Digest{9, 9};
    const auto found = compare(a, b);
    REQUIRE(found.first.has_value());
    CHECK(found.first->version == 3);
    CHECK(found.first->losses == std::vector<VirtualRank>{1});
    CHECK_FALSE(found.first->digests);
    CHECK(difference_text(*found.first) == "step 3: losses of ESTs 1");
    b = ledger();
    b.lines[0].losses[0] = -0.0F;
    b.lines[0].params_digest.reset();
    CHECK(difference_text(*compare(a, b).first) ==
          "step 1: losses of ESTs 0; digest of the parameters");
  }

  TEST_CASE("diff of two files ends with 0 when they are equal, with 1 when they are not") {
    Files files;
    LedgerFile other = ledger();
    other.lines[1].params_digest = Digest{9, 9};
    const std::string a = files.write("a", ledger()), b = files.write("b", other);
    CHECK(files.session.run({"diff", a, a}) == 0);
    CHECK(files.session.out().ends_with("4 steps compared, no differences\nidentical yes\n"));
    CHECK(files.session.run({"diff", a, b}) == 1);
    CHECK(files.session.out().find("first difference in step 2: digest") != std::string::npos);
    CHECK(files.session.out().ends_with("identical no\n"));
    CHECK(files.session.run({"diff", a, b, "--json"}) == 1);
    CHECK(files.json().at("first").at("step") == 2);
    CHECK(files.session.run({"diff", a, b, "--deep"}) == 2);  // The file names no devices.
    CHECK(files.session.err().find("--device-a") != std::string::npos);
    other.spec = {2, 2};
    CHECK(files.session.run({"diff", a, files.write("c", other)}) == 1);
    CHECK(files.session.out().find("specifications differ") != std::string::npos);
  }

  TEST_CASE("a range of a ledger file is shown, and a damaged one is a usage error") {
    Files files;
    const std::string a = files.write("a", ledger());
    CHECK(files.session.run({"ledger", a, "--from", "2", "--to", "3", "--json"}) == 0);
    CHECK(files.json().at("lines").size() == 2);
    CHECK(files.json().at("lines")[0].at("step") == 2);
    CHECK(files.session.run({"ledger", a, "--from", "3", "--to", "2"}) == 2);
    std::string text = es::test::read_file(a);
    const std::size_t at = text.find("\n3 ");
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    text[at + 5] ^= 1;
    es::test::write_file(files.directory / "bad", text);
    const std::string bad = (files.directory / "bad").string();
    CHECK(files.session.run({"ledger", bad}) == 2);
    CHECK(files.session.run({"diff", a, bad}) == 2);
    CHECK(files.session.err().find("bad, line " + std::to_string(line + 2)) != std::string::npos);
  }

  TEST_CASE("the ledger of a job is read part by part, and written to a file that reads back") {
    Files files;
    const std::string endpoint = "ipc://" + (files.directory / "sockets/head").string();
    FakeHead head(endpoint);
    head.on(MessageType::kReadLedger, part);
    head.on(MessageType::kDescribeJob, [](const std::shared_ptr<const Frame>& request) {
      return Frames{reply<wire::JobDetails>(request, [&](wire::JobDetails::Builder b) {
        fill_job(b.initInfo(), request->envelope.job, "finished");
        b.setSpecToml(job_toml());
      })};
    });
    const std::string out = (files.directory / "out").string();
    CHECK(files.session.run({"ledger", "cnn-1", "--out", out, "--head", endpoint}) == 0);
    const auto read = esctl::open_ledger(out, {});
    REQUIRE(read.ok());
    CHECK(read->lines.size() == 6);
    CHECK(read->placements == "cpu-avx2:4@20,cpu-scalar:1@40");
    CHECK(read->spec == esctl::bits_digest(parse_job(read->spec_toml, "file").value()));
    CHECK(files.session.run({"diff", out, "cnn-1", "--head", endpoint}) == 0);
    CHECK(files.session.run({"ledger", "cnn-1", "--out", out, "--head", endpoint}) == 4);
    CHECK(files.session.err().find("exists already: allowed is a new name") != std::string::npos);
    std::filesystem::create_symlink(files.directory / "elsewhere", files.directory / "link");
    const std::string link = (files.directory / "link").string();
    CHECK(files.session.run({"ledger", "cnn-1", "--out", link, "--head", endpoint}) == 4);
    CHECK_FALSE(std::filesystem::exists(files.directory / "elsewhere"));
  }

  TEST_CASE("a field that cannot change the bits does not change the digest of a specification") {
    const JobSpec spec = parse_job(job_toml(), "job").value();
    JobSpec same = spec;
    same.name = "other";
    same.audit.every_steps = 5;
    same.resources.threads = 2;
    same.stages = parse_stages("cpu-scalar:1@60").value();
    CHECK(esctl::bits_digest(same) == esctl::bits_digest(spec));
    JobSpec other = spec;
    other.seed = 2;
    CHECK(esctl::bits_digest(other) != esctl::bits_digest(spec));
  }

  TEST_CASE("verify fails when one run differs, and says where") {
    std::vector<VerifiedRun> runs{{"a:1@4", ledger(), "p", "s"}, {"b:1@4", ledger(), "p", "s"}};
    CHECK(verify_text(runs).ends_with("identical yes\n"));
    runs[1].difference = "step 3: digest of the parameters";
    CHECK(verify_text(runs).ends_with("identical no\n"));
    CHECK(Json::parse(verify_json(runs)).at("runs")[1].at("difference") ==
          "step 3: digest of the parameters");
    Session session;
    CHECK(session.run({"verify", "job.toml", "--stages", "cpu-scalar:1@2"}) == 2);
    CHECK(session.err().find("at least 2") != std::string::npos);
  }

  TEST_CASE("a step run twice has the same trace; a trace names operators and parameters") {
    worker::TraceRequest request{
        .spec = parse_job(job_toml(), "job").value(), .step = 2, .checkpoint = {}};
    const auto first = worker::trace_step(request);
    REQUIRE(first.ok());
    CHECK(worker::trace_step(request)->lines == first->lines);
    CHECK(first->lines.front().what.starts_with("EST 0: output of "));
    CHECK(first->lines.back().what.starts_with("update of "));
    const auto read = worker::decode_trace(worker::encode(*first));
    REQUIRE(read.ok());
    CHECK(read->before == first->before);
    CHECK(read->lines == first->lines);
    CHECK_FALSE(worker::decode_trace("abc\n").ok());
    worker::StepTrace other = *first;
    other.lines[3].digest = {9, 9};
    const DeepDiff found = compare(*first, other);
    CHECK(found.found);
    CHECK(found.what == first->lines[3].what);
    CHECK_FALSE(compare(*first, *first).found);
  }
}

}  // namespace es::actors::test
