#include "actors/base/data_plane/segment.h"

#include <unistd.h>

#include <doctest/doctest.h>

#include <cstring>

using namespace es;
using namespace es::actors;

namespace {

std::unique_ptr<Segment> create(std::uint64_t bytes, const std::string& part = "grad.0") {
  auto segment = Segment::create(segment_label("job", {5}, {1}, part), bytes);
  REQUIRE(segment.ok());
  return *std::move(segment);
}

}  // namespace

TEST_SUITE("actors/base/data_plane/segment") {
  TEST_CASE("a peer reads the bytes that the owner wrote") {
    const auto segment = create(4096);
    std::memcpy(segment->data() + 100, "abc", 3);
    SegmentCache cache;
    const auto read = cache.read(segment->address(), 100, 3);
    REQUIRE(read.ok());
    CHECK(std::memcmp(read->data(), "abc", 3) == 0);
  }

  TEST_CASE("each part of each generation of each process has its own label") {
    const std::string label = segment_label("job", {5}, {1}, "grad.0");
    CHECK(label != segment_label("job", {5}, {2}, "grad.0"));
    CHECK(label != segment_label("job", {6}, {1}, "grad.0"));
    CHECK(label != segment_label("job", {5}, {1}, "grad.1"));
    CHECK(label != segment_label("job2", {5}, {1}, "grad.0"));
  }

  TEST_CASE("a mapping outlives the owner's segment, so a reader never faults") {
    auto segment = create(4096);
    const std::string address = segment->address();
    segment->data()[0] = std::byte{7};
    SegmentCache cache;
    const auto read = cache.read(address, 0, 1);
    REQUIRE(read.ok());
    segment.reset();
    CHECK((*read)[0] == std::byte{7});
    CHECK_FALSE(SegmentCache().read(address, 0, 1).ok());
  }

  TEST_CASE("an address that names another segment by now is refused") {
    auto first = create(4096, "grad.0");
    const std::string address = first->address();
    first.reset();
    const auto second = create(4096, "grad.1");  // The new segment gets the same file descriptor.
    const auto read = SegmentCache().read(address, 0, 1);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::kNotFound);
    CHECK(SegmentCache().read(second->address(), 0, 1).ok());
  }

  TEST_CASE("bytes outside of a segment are an error") {
    const auto segment = create(4096);
    SegmentCache cache;
    CHECK(cache.read(segment->address(), 4000, 96).ok());
    CHECK_FALSE(cache.read(segment->address(), 4000, 97).ok());
    CHECK_FALSE(cache.read(segment->address(), ~std::uint64_t{0}, 2).ok());
    CHECK_FALSE(cache.read(segment->address(), 0, ~std::uint64_t{0}).ok());
  }

  TEST_CASE("a text that is not an address is refused") {
    for (const char* text : {"", "1", "1:2", "x:y:z", "0:0:", "../../etc/passwd", "1:-1:es.j"}) {
      CAPTURE(text);
      CHECK_FALSE(Segment::open(text).ok());
    }
  }

  TEST_CASE("a reserved segment has the memory of what was written, until it is given back") {
    const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto segment = *Segment::reserve("es.test.reserved", 8 * page - 100);
    CHECK(segment->resident_bytes() == 0);
    std::memset(segment->data(), 1, 8 * page - 100);
    CHECK(segment->resident_bytes() == 8 * page);
    const auto opened = *Segment::open(segment->address());
    const Segment& peer = *opened;
    CHECK(peer.data()[3 * page] == std::byte{1});
    // The pages 2 and 3 lie within this range, and parts of their neighbours.
    segment->release(2 * page - 100, 2 * page + 200);
    CHECK(segment->resident_bytes() == 6 * page);
    CHECK(segment->data()[2 * page - 100] == std::byte{1});
    CHECK(segment->data()[4 * page + 99] == std::byte{1});
    CHECK(peer.data()[3 * page] == std::byte{0});
    segment->release(0, 8 * page - 100);
    CHECK(segment->resident_bytes() == 0);
    REQUIRE(segment->allocate().ok());
    CHECK(segment->resident_bytes() == 8 * page);
  }

  TEST_CASE("a segment larger than the memory is refused at once") {
    const auto created = Segment::create("es.job.1.1.huge", std::uint64_t{1} << 50);
    CHECK_FALSE(created.ok());
  }
}
