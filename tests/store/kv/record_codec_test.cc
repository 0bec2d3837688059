#include "store/kv/record_codec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace es;
using namespace es::store;

namespace {

std::string sample() {
  RecordWriter out(3);
  out.u8(200);
  out.u32(4'000'000'000);
  out.u64(~0ull);
  out.f64(-0.0);
  out.text(std::string("a\0b", 3));
  out.digest({1, 2});
  return out.take();
}

}  // namespace

TEST_SUITE("store/kv/record_codec") {
  TEST_CASE("fields are read back in order") {
    const std::string bytes = sample();
    RecordReader in(bytes, 3, "record");
    CHECK(in.u8() == 200);
    CHECK(in.u32() == 4'000'000'000);
    CHECK(in.u64() == ~0ull);
    CHECK(std::signbit(in.f64()));
    CHECK(in.text() == std::string("a\0b", 3));
    CHECK(in.digest() == Digest{1, 2});
    CHECK(in.finish().ok());
  }

  TEST_CASE("another format version is named with the one that is allowed") {
    const std::string bytes = sample();
    RecordReader in(bytes, 4, "record of job \"a\"");
    const Status status = in.finish();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message ==
          "record of job \"a\" in the state directory cannot be read: format version = 3: allowed "
          "is 4");
  }

  TEST_CASE("a record that is cut at any byte, or longer, is an error") {
    const std::string whole = sample();
    for (std::size_t size = 0; size <= whole.size() + 1; ++size) {
      const std::string bytes = size > whole.size() ? whole + "x" : whole.substr(0, size);
      RecordReader in(bytes, 3, "record");
      in.u8(), in.u32(), in.u64(), in.f64(), in.text(), in.digest();
      CHECK(in.finish().ok() == (size == whole.size()));
    }
  }

  TEST_CASE("a number of items that the record cannot hold is an error, and counts as none") {
    RecordWriter out(1);
    out.u32(std::numeric_limits<std::uint32_t>::max());
    const std::string bytes = out.take();
    RecordReader in(bytes, 1, "record");
    CHECK(in.count(8) == 0);
    CHECK_FALSE(in.finish().ok());
  }
}
