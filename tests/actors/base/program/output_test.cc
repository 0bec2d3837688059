#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>

#include "actors/base/program/program.h"
#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

using test::TempDirectory;

// A file that is open during the lifetime of this object.
struct Descriptor {
  explicit Descriptor(const std::string& path)
      : fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {
    REQUIRE(fd >= 0);
  }
  ~Descriptor() { ::close(fd); }
  const int fd;
};

}  // namespace

TEST_SUITE("actors/base/program/output") {
  TEST_CASE("texts are escaped, the program's own control sequences are not, and the order stays") {
    TempDirectory directory;
    const Descriptor file((directory / "out").string());
    OutputBuffer buffer(file.fd, OutputBuffer::Show::kEscaped);
    std::ostream out(&buffer);
    out << "a\x1b[2J\xc3"
        << "\xa4\n\t";  // A character in two parts.
    buffer.write_raw("\r\x1b[K");
    out << 'z' << std::flush;
    CHECK(test::read_file(directory / "out") == "a\\x1b[2J\xc3\xa4\n\t\r\x1b[Kz");
  }

  TEST_CASE("bytes that cannot be written are reported to a caller that asks for it") {
    const Descriptor full("/dev/full");
    OutputBuffer buffer(full.fd, OutputBuffer::Show::kAsIs);
    std::ostream quiet(&buffer);
    quiet << "x" << std::flush;
    CHECK(quiet.bad());
    std::ostream loud(&buffer);
    loud.exceptions(std::ios::badbit);
    int error = 0;
    try {
      loud << "x" << std::flush;
    } catch (const OutputFailed& failed) {
      error = failed.error;
    }
    CHECK(error == ENOSPC);
  }

  TEST_CASE("a long text is written before the end") {
    const Descriptor full("/dev/full");
    OutputBuffer buffer(full.fd, OutputBuffer::Show::kAsIs);
    std::ostream out(&buffer);
    for (int i = 0; i < 100'000 && out; ++i) out << "a line\n";
    CHECK(out.bad());
  }
}

}  // namespace es::actors
