// Event files of TensorBoard, byte by byte. A test of `esctl curve` reads one with TensorBoard.
#include "store/tensorboard/event_file.h"

#include <doctest/doctest.h>

TEST_SUITE("store/tensorboard") {
  using namespace es::store;

  std::string bytes_of(std::initializer_list<int> values) {
    std::string text;
    for (const int v : values) text += static_cast<char>(v);
    return text;
  }

  TEST_CASE("the checksum has the values of RFC 3720") {
    CHECK(crc32c("123456789") == 0xE3069283);
    CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
    CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
    CHECK(crc32c("") == 0);
  }

  TEST_CASE("a scalar has the bytes of its message") {
    const Scalar scalar{"a", 300, 0.5F};
    const std::string record = encode_events(1.0, {&scalar, 1});
    // The length, 24 bytes, then a checksum.
    CHECK(record.substr(0, 8) == bytes_of({24, 0, 0, 0, 0, 0, 0, 0}));
    const std::string data =
        bytes_of({0x09, 0,    0,    0, 0,    0, 0,   0xF0, 0x3F,  // wall_time = 1.0
                  0x10, 0xAC, 0x02,                               // step = 300
                  0x2A, 10,   0x0A, 8, 0x0A, 1, 'a',              // summary.value.tag
                  0x15, 0,    0,    0, 0x3F});                    // simple_value = 0.5
    CHECK(data.size() == 24);
    CHECK(record.substr(12, 24) == data);
    CHECK(record.size() == 12 + 24 + 4);
  }

  TEST_CASE("a file begins with the version of its form") {
    const std::string header = event_file_header(1.0);
    CHECK(header.substr(0, 8) == bytes_of({24, 0, 0, 0, 0, 0, 0, 0}));
    CHECK(header.substr(12, 24) ==
          bytes_of({0x09, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x1A, 13}) + "brain.Event:2");
    CHECK(header.size() == 12 + 24 + 4);
  }
}
