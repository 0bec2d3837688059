#include "actors/base/tracing/wire/trace_codec.h"

#include <doctest/doctest.h>

TEST_SUITE("tracing/trace_codec") {
  using namespace es;
  using namespace es::actors;
  using namespace es::actors::tracing;

  Span span(Version step) {
    return {.kind = SpanKind::kOperator,
            .lane = lane::kDevice,
            .number = 12,
            .step = step,
            .begin = Instant(1000),
            .duration = Instant(20),
            .peer = 4,
            .bytes = 99};
  }

  TracePiece piece() {
    return {.trace = 7,
            .about = TracedProcess{.pid = 5,
                                   .operators = {{"conv1", "conv2d", true, 2.5, 8}},
                                   .memory = {{"parameters", "job", 64}},
                                   .peak_gflops = 3},
            .spans = {span(1), span(2)},
            .dropped = 6,
            .last = true};
  }

  Trace summary() {
    return {.job = {},
            .first = 1,
            .end = 2,
            .zero = Instant(500),
            .zero_unix_ms = 9,
            .note = "the job has no more steps",
            .processes = {{.worker = {3},
                           .device = {"n1", {"cpu-avx2"}, 1},
                           .clock = {.ahead = Instant(-8), .error = Instant(2)},
                           .missing = "it is gone"}}};
  }

  TEST_CASE("a part keeps all of its fields") {
    const TracePiece sent = piece();
    const auto read = decode_piece(encode({.job = "j"}, sent));
    REQUIRE(read);
    CHECK(read->trace == sent.trace);
    CHECK(read->about == sent.about);
    CHECK(read->spans == sent.spans);
    CHECK(read->dropped == 6);
    CHECK(read->last);
    TracePiece later = sent;
    later.about.reset();
    CHECK(!decode_piece(encode({.job = "j"}, later))->about);
  }

  TEST_CASE("the end keeps all of its fields") {
    const auto read = decode_end(encode_end({.job = "j"}, summary()));
    REQUIRE(read);
    CHECK(read->first == 1);
    CHECK(read->end == 2);
    CHECK(read->zero == Instant(500));
    CHECK(read->zero_unix_ms == 9);
    CHECK(read->note == "the job has no more steps");
    REQUIRE(read->processes.size() == 1);
    CHECK(read->processes[0].worker == Incarnation{3});
    CHECK(read->processes[0].device.text() == "n1/cpu-avx2:1");
    CHECK(read->processes[0].clock == summary().processes[0].clock);
    CHECK(read->processes[0].missing == "it is gone");
  }

  TEST_CASE("what no worker sends is refused") {
    TracePiece unknown = piece();
    unknown.spans[0].kind = static_cast<SpanKind>(999);
    CHECK(decode_piece(encode({.job = "j"}, unknown)).error().message.find("kind 999") !=
          std::string::npos);
    TracePiece large = piece();
    large.spans.assign(kSpansOfPart + 1, span(1));
    CHECK(!decode_piece(encode({.job = "j"}, large)));
    CHECK(!decode_piece(encode_end({.job = "j"}, summary())));
    const auto late = Msg<wire::TracePart>::build({.job = "j"}, [](wire::TracePart::Builder b) {
      b.initSpans(1)[0].setKind(1);
      b.getSpans()[0].setBeginNs(~std::uint64_t{0});
    });
    CHECK(!decode_piece(late.frame()));
  }

  TEST_CASE("a stream is put together, and its steps are cut out") {
    TraceAssembly assembly(100);
    const auto first = assembly.add(encode({.job = "j", .sender = {3}}, piece()));
    REQUIRE(first);
    CHECK(!*first);
    const auto whole = assembly.add(encode_end({.job = "j"}, summary()));
    REQUIRE(whole);
    REQUIRE(whole->has_value());
    const Trace& trace = **whole;
    CHECK(trace.job == "j");
    REQUIRE(trace.processes.size() == 2);
    CHECK(trace.processes[0].worker == Incarnation{});
    CHECK(trace.processes[1].spans == std::vector<Span>{span(1)});
    CHECK(trace.processes[1].about.pid == 5);
    CHECK(trace.processes[1].dropped == 6);
  }

  TEST_CASE("spans beyond the limit of the reader count as dropped") {
    TraceAssembly assembly(1);
    REQUIRE(assembly.add(encode({.job = "j", .sender = {3}}, piece())));
    const auto whole = assembly.add(encode_end({.job = "j"}, summary()));
    REQUIRE(whole->has_value());
    CHECK((*whole)->processes[1].spans.size() == 1);
    CHECK((*whole)->processes[1].dropped == 7);
  }
}
