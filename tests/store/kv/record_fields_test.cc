#include "store/kv/record_fields.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::store;

namespace {

struct Part {
  std::string name;
  std::uint32_t count = 0;
  bool operator==(const Part&) const = default;
};

// A record of three releases: the second one added `share`, the third one `parts` and `colour`.
enum class Colour { kRed, kBlue };
struct Sample {
  std::uint64_t number = 0;
  std::set<std::string> names;
  double share = 1;
  std::vector<Part> parts;
  Colour colour = Colour::kBlue;
  bool operator==(const Sample&) const = default;
};

struct SampleOfTwoReleases : Sample {};

std::string stored_colour(Colour colour) {
  return colour == Colour::kRed ? "red" : "blue";
}

std::optional<Colour> colour_of(const std::string& text) {
  if (text == "red") return Colour::kRed;
  return text == "blue" ? std::optional(Colour::kBlue) : std::nullopt;
}

}  // namespace

namespace es::store {

template <>
struct RecordFields<Part> {
  template <class AnyPart, class Visit>
  static void visit_fields(AnyPart& part, Visit& visit) {
    visit(part.name);
    visit(part.count);
    visit.expect(part.count != 13);
  }
};

template <>
struct RecordFields<SampleOfTwoReleases> {
  static constexpr std::uint8_t kOldestVersion = 4;
  template <class AnySample, class Visit>
  static void visit_fields(AnySample& sample, Visit& visit) {
    visit("number", sample.number);
    visit("names", sample.names);
    visit.added();
    visit("share", sample.share);
    visit.expect(sample.share >= 0);
  }
};

template <>
struct RecordFields<Sample> {
  static constexpr std::uint8_t kOldestVersion = 4;
  template <class AnySample, class Visit>
  static void visit_fields(AnySample& sample, Visit& visit) {
    RecordFields<SampleOfTwoReleases>::visit_fields(sample, visit);
    visit.added();
    visit("parts", sample.parts);
    visit.coded("colour", sample.colour, stored_colour, colour_of);
  }
};

}  // namespace es::store

namespace {

const Sample kSample{7, {"a", "b"}, 0.5, {{"x", 3}, {"y", 4}}, Colour::kRed};

std::string error_of(const std::string& bytes) {
  const auto sample = decode_record<Sample>(bytes, "sample");
  return sample.ok() ? "" : sample.error().message;
}

}  // namespace

TEST_SUITE("store/kv/record_fields") {
  TEST_CASE("fields are read back, and the bytes are those of a RecordWriter") {
    RecordWriter out(6);
    out.u64(7);
    out.u32(2);
    out.text("a");
    out.text("b");
    out.f64(0.5);
    out.u32(2);
    out.text("x");
    out.u32(3);
    out.text("y");
    out.u32(4);
    out.text("red");
    const std::string bytes = out.take();
    CHECK(encode_record(kSample) == bytes);
    CHECK(*decode_record<Sample>(bytes, "sample") == kSample);
    CHECK(*decode_record<Sample>(encode_record(Sample{}), "sample") == Sample{});
  }

  TEST_CASE("every group of added fields raises the version, and earlier records are read") {
    CHECK(record_versions<SampleOfTwoReleases>() == std::pair<std::uint8_t, std::uint8_t>(4, 5));
    CHECK(record_versions<Sample>() == std::pair<std::uint8_t, std::uint8_t>(4, 6));
    SampleOfTwoReleases earlier;
    static_cast<Sample&>(earlier) = kSample;
    const std::string bytes = encode_record(earlier);
    CHECK(*decode_record<Sample>(bytes, "sample") == Sample{7, {"a", "b"}, 0.5});
    // The first release had neither the share nor what follows.
    CHECK(*decode_record<Sample>("\4" + bytes.substr(1, bytes.size() - 9), "sample") ==
          Sample{7, {"a", "b"}});
  }

  TEST_CASE("a record with fields that the program does not know is refused by its version") {
    const auto sample = decode_record<SampleOfTwoReleases>(encode_record(kSample), "sample");
    REQUIRE_FALSE(sample.ok());
    CHECK(sample.error().message ==
          "sample in the state directory cannot be read: format version = 6: allowed is 5");
    CHECK(error_of("\3").find("format version = 3: allowed is 6") != std::string::npos);
    CHECK(error_of("").find("shorter than its fields") != std::string::npos);
  }

  TEST_CASE("a value that is not allowed is refused with the name of the field") {
    Sample sample = kSample;
    sample.share = -1;
    CHECK(error_of(encode_record(sample)).find("field share has") != std::string::npos);
    sample = kSample;
    sample.parts[1].count = 13;
    CHECK(error_of(encode_record(sample)).find("field parts has") != std::string::npos);
    std::string bytes = encode_record(kSample);
    bytes.back() = 'X';
    CHECK(error_of(bytes).find("field colour has") != std::string::npos);
    std::swap(bytes[17], bytes[22]);  // the names "a" and "b"
    CHECK(error_of(bytes).find("field names has") != std::string::npos);
  }
}
