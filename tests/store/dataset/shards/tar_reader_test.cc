#include "store/dataset/shards/tar_reader.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/store/dataset/shards/tar_files.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

struct Found {
  std::vector<std::pair<std::string, std::string>> members;  // names and contents
  std::string error;
};

Found read_tar(const std::string& bytes) {
  TempDirectory directory;
  write_file(directory / "a.tar", bytes);
  const DataFile file = *DataFile::open(directory / "a.tar");
  TarReader reader(file);
  Found found;
  TarMember member;
  while (true) {
    const Result<bool> more = reader.next(member);
    if (!more) {
      found.error = more.error().message;
      // The file is named, and a content that follows is not.
      REQUIRE(found.error.find(file.name() + ": block ") == 0);
      REQUIRE(found.error.find('\n') == std::string::npos);
      found.error = found.error.substr(file.name().size() + 2);
      return found;
    }
    if (!*more) return found;
    REQUIRE(member.at + member.bytes <= bytes.size());
    const auto content = reader.content(member);
    REQUIRE(content.ok());
    REQUIRE(*content == bytes.substr(member.at, member.bytes));
    found.members.emplace_back(member.name, *content);
  }
}

std::string error_of(const std::string& bytes) {
  return read_tar(bytes).error;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Members = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_SUITE("store/dataset/shards/tar_reader") {
  TEST_CASE("members are read in their order, with contents of any length") {
    const std::string big(70'000, 'b'), whole(512, 'w');
    const std::string tar = tar_member("a.jpg", big) + tar_member("dir/", "", {.type = '5'}) +
                            tar_member("dir/b.cls", "1") + tar_member("c", whole) +
                            tar_member("empty", "") + tar_end();
    const Found found = read_tar(tar);
    CHECK(found.error.empty());
    CHECK(found.members ==
          Members{{"a.jpg", big}, {"dir/b.cls", "1"}, {"c", whole}, {"empty", ""}});
  }

  TEST_CASE("long names of ustar, pax and GNU tar, and sizes of pax") {
    const std::string name(300, 'n');
    const std::string tar = tar_member("name", "1", {.prefix = "a/long"}) +
                            pax_header({{"path", name}}) + tar_member("cut", "2") +
                            gnu_name(name + "x") + tar_member("cut", "3") +
                            pax_header({{"comment", "none"}, {"size", "600"}}) +
                            tar_header("large", 0) + tar_content(std::string(600, 'l')) +
                            tar_member("global", "18 comment=ignored\n", {.type = 'g'}) +
                            tar_member("last", "4") + tar_end();
    const Found found = read_tar(tar);
    CHECK(found.error.empty());
    CHECK(found.members == Members{{"a/long/name", "1"},
                                   {name, "2"},
                                   {name + "x", "3"},
                                   {"large", std::string(600, 'l')},
                                   {"last", "4"}});
  }

  TEST_CASE("a size may be written in base 256") {
    const std::string size = std::string("\x80", 1) + std::string(10, '\0') + "\x03";
    CHECK(read_tar(tar_header("a", 3, {.size = size}) + tar_content("abc") + tar_end()).members ==
          Members{{"a", "abc"}});
  }

  TEST_CASE("what follows the end mark is not read, and one block of zeros is enough") {
    const std::string one = tar_member("a", "1") + std::string(512, '\0');
    CHECK(read_tar(one).members.size() == 1);
    CHECK(read_tar(one + tar_member("b", "2")).members.size() == 1);
    CHECK(read_tar(one).error.empty());
  }

  TEST_CASE("an archive that is cut short is refused, wherever it is cut") {
    const std::string tar = tar_member("a", std::string(700, 'a')) + tar_member("b", "2");
    for (std::size_t size = 0; size < tar.size() + 512; size += 37)
      CHECK_FALSE(error_of((tar + tar_end()).substr(0, size)).empty());
    CHECK(mentions(error_of(tar), "block 5: the archive is cut short: allowed is one that ends"));
  }

  TEST_CASE("hostile headers are refused with their block") {
    const std::string first = tar_member("a", "1");
    const auto refused = [&](const std::string& header, const std::string& text) {
      const std::string error = error_of(first + header + tar_end());
      CAPTURE(error);
      CHECK(mentions(error, "block 2: " + text));
    };
    const auto sized = [](const std::string& size) { return tar_header("b", 0, {.size = size}); };
    refused(tar_header("b", 0, {.checksum = "000001\0 "}), "checksum of the header");
    refused(std::string(512, 'x'), "checksum of the header");
    refused(sized("77777777777"), "bytes of the member = 8589934591: allowed is at most 1024");
    refused(sized(std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12)),
            "bytes of the member = 9223372036854775807: allowed is at most");
    refused(sized(std::string(1, '\x80') + std::string(11, '\xff')), "size of the member");
    refused(sized(std::string(12, '\xff')), "size of the member");
    refused(sized("-0000000001"), "size of the member");
    refused(sized("0000000008 "), "size of the member");
    for (const char type : {'1', '2', '3', '4', '6', 'S', 'V', '\x7f'})
      refused(tar_header("b", 0, {.type = type}), "type of the member");
    refused(tar_header("x", 1 << 20, {.type = 'L'}), "bytes of the member = 1048576");
    refused(tar_member("x", std::string(70'000, 'n'), {.type = 'L'}),
            "bytes of the extended header = 70000: allowed is at most 65536");
    for (const std::string pax : {"x", "5 a=b", "4 a=b\n", "99 a=b\n", "6 abcd\n", "1 \n",
                                  "0 a=b\n", "9 size=-1\n", "29 size=99999999999999999999\n"})
      refused(tar_member("x", pax, {.type = 'x'}), "pax header");
    refused(tar_member("x", "22 GNU.sparse.major=1\n", {.type = 'x'}), "type of the member");
    CHECK(mentions(error_of(first + pax_header({{"size", "4096"}}) + tar_member("b", "2")),
                   "block 4: bytes of the member = 4096"));
  }

  TEST_CASE("10,000 mutated archives give members inside the file, or one error") {
    std::mt19937_64 random(seed("tar"));
    const std::string whole =
        tar_member("a/0.jpg", std::string(900, 'j')) + tar_member("a/0.cls", "0") +
        pax_header({{"path", "b/long.jpg"}, {"size", "5"}}) + tar_member("short", "12345") +
        gnu_name("b/long.cls") + tar_member("short", "1") + tar_end();
    int accepted = 0;
    for (int round = 0; round < 10'000; ++round) {
      CAPTURE(round);
      std::string bytes = mutate(whole, random);
      // Every other one gets right checksums, so that the fields behind them are reached too.
      for (std::size_t at = 0; round % 2 == 0 && at + 512 <= bytes.size(); at += 512) {
        if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
        bytes.replace(at + 148, 8, "        ");
        unsigned sum = 0;
        for (std::size_t i = at; i < at + 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
        bytes.replace(at + 148, 8, octal(sum, 6) + std::string("\0 ", 2));
      }
      accepted += read_tar(bytes).error.empty();
    }
    CHECK(accepted > 0);
    CHECK(accepted < 10'000);
  }
}
