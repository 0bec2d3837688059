#include "proto/base/private_file.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace es {
namespace {

constexpr uid_t kOtherUser = 65532;

std::filesystem::path make_file(const std::filesystem::path& directory, int mode) {
  const std::filesystem::path file = directory / ("secret-" + std::to_string(mode));
  std::ofstream(file) << "secret";
  std::filesystem::permissions(file, static_cast<std::filesystem::perms>(mode));
  return file;
}

// A directory that others may enter, removed with this object.
class Directory {
 public:
  Directory() {
    std::string text = (std::filesystem::temp_directory_path() / "es-private-XXXXXX").string();
    REQUIRE(::mkdtemp(text.data()) != nullptr);
    path_ = text;
    std::filesystem::permissions(
        path_, std::filesystem::perms::group_exec | std::filesystem::perms::others_exec,
        std::filesystem::perm_options::add);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST_SUITE("proto/base/private_file") {
  TEST_CASE("a secret of a user may be read by this user only") {
    const Directory directory;
    CHECK(check_private_file(make_file(directory.path(), 0400), "key file").ok());
    for (const int mode : {0440, 0404, 0420, 0402}) {
      const Status refused = check_private_file(make_file(directory.path(), mode), "key file");
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().kind == ErrorKind::kRefused);
      CHECK(refused.error().message.starts_with("key file " + directory.path().string()));
    }
    CHECK(check_private_file(directory.path() / "none", "key file").error().kind ==
          ErrorKind::kNotFound);
  }

  TEST_CASE("a process with another user may have a secret of the superuser by its group") {
    if (::geteuid() != 0) {
      MESSAGE("skipped: only the superuser can make such a file");
      return;
    }
    const Directory directory;
    const auto by_group = make_file(directory.path(), 0440),
               by_all = make_file(directory.path(), 0444),
               written = make_file(directory.path(), 0460);
    REQUIRE(::seteuid(kOtherUser) == 0);
    const Status group = check_private_file(by_group, "key file"),
                 all = check_private_file(by_all, "key file"),
                 writes = check_private_file(written, "key file");
    REQUIRE(::seteuid(0) == 0);
    CHECK_MESSAGE(group.ok(), (group.ok() ? "" : group.error().message));
    CHECK_FALSE(all.ok());
    CHECK_FALSE(writes.ok());
  }
}

}  // namespace
}  // namespace es
