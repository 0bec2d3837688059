#include "store/path_roots.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/store/temp_directory.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// A root with a file and a directory in it, and a sibling whose name begins with the name of the
// root.
struct House {
  House() : root(fs::canonical(place.path()) / "data"), beside(root.string() + "2") {
    fs::create_directories(root / "set");
    fs::create_directories(beside);
    for (const fs::path& file : {root / "set/file", beside / "file"}) std::ofstream(file) << "text";
    fs::create_symlink(beside, root / "out");
    fs::create_symlink(beside / "absent", root / "nowhere");
    fs::create_symlink("set", root / "in");
    fs::create_symlink("circle", root / "circle");
    roots.data = std::vector<fs::path>{root};
    roots.checkpoints.emplace();
  }
  Status named(const std::string& path) const {
    const ConfinedThread confined(roots);
    return check_named(RootKind::kData, "data.path", path);
  }

  const test::TempDirectory place;
  const fs::path root, beside;
  PathRoots roots;
};

TEST_SUITE("store/path_roots") {
  TEST_CASE("a path in a root is allowed, also when it does not exist yet") {
    const House house;
    for (const char* name : {"", "/set", "/set/file", "/new", "/set/new/er", "/in/file", "/./set"})
      CHECK_MESSAGE(house.named(house.root.string() + name).ok(), name);
  }

  TEST_CASE(
      "any other path is refused in every spelling, and the refusal does not tell what exists") {
    const House house;
    const std::string root = house.root.string();
    const std::string nul(1, '\0');
    for (const std::string& path :
         {std::string("/"), std::string("/etc/passwd"), root + "2", root + "2/file", root + "/..",
          root + "/../data2/file", root + "/set/../../data2", root + "/out", root + "/out/file",
          root + "/out/absent", root + "/nowhere", root + "/nowhere/x", root + "/circle",
          std::string("data"), std::string("set/file"), std::string("."), root + nul,
          root + "/set" + nul + "/../..", std::string("/proc/self/root") + root + "2/file"}) {
      const Status status = house.named(path);
      REQUIRE_MESSAGE(!status.ok(), path);
      CHECK(status.error().kind == ErrorKind::kRefused);
      CHECK(status.error().message.find("data.path = ") == 0);
      CHECK(status.error().message.find("--data-root") != std::string::npos);
      CHECK(status.error().message.find('\0') == std::string::npos);
    }
    const auto without_name = [&](const std::string& name) {
      std::string message = house.named(root + name).error().message;
      return message.erase(message.find(name), name.size());
    };
    CHECK(without_name("/out/file") == without_name("/out/absent"));
  }

  TEST_CASE("without roots every path is allowed; with roots of the other kind only, none is") {
    CHECK(check_named(RootKind::kData, "data.path", "relative/..").ok());
    const House house;
    const ConfinedThread confined(house.roots);
    const Status none = check_named(RootKind::kCheckpoints, "--to", house.root.string());
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().message.find("--checkpoint-root") != std::string::npos);
  }

  TEST_CASE("a link that was made after the check of the name is found when the file is opened") {
    const House house;
    const ConfinedThread confined(house.roots);
    const fs::path file = house.root / "set/file";
    const auto opened = [&](const fs::path& path) {
      const int descriptor = ::open(path.c_str(), O_RDONLY);
      const Status status = check_opened(RootKind::kData, path, descriptor);
      if (descriptor >= 0) ::close(descriptor);
      return status.ok();
    };
    CHECK(opened(file));
    CHECK(opened(house.root / "in/file"));
    CHECK(opened(house.root / "set/absent"));  // The code that opens it reports that.
    CHECK_FALSE(opened(house.root / "out/file"));
    CHECK_FALSE(opened(house.root / "out/absent"));
    CHECK_FALSE(opened(house.root / "nowhere"));
    CHECK(check_place(RootKind::kData, file).ok());
    fs::remove(file);
    fs::create_symlink(house.beside / "file", file);
    CHECK_FALSE(opened(file));
    CHECK_FALSE(check_place(RootKind::kData, file).ok());
  }

  TEST_CASE("roots are in force for a thread during their lifetime, the innermost first") {
    const House house;
    PathRoots wide;
    wide.data = std::vector<fs::path>{"/"};
    {
      const ConfinedThread outer(house.roots);
      CHECK_FALSE(check_place(RootKind::kData, house.beside).ok());
      {
        const ConfinedThread inner(wide);
        CHECK(check_place(RootKind::kData, house.beside).ok());
      }
      CHECK_FALSE(check_place(RootKind::kData, house.beside).ok());
    }
    CHECK(check_place(RootKind::kData, house.beside).ok());
  }

  TEST_CASE("a root is an existing directory, and a link to one counts as its target") {
    const House house;
    const auto roots = resolve_roots({(house.root / "out").string()}, "--data-root");
    REQUIRE(roots.ok());
    CHECK(roots->front() == house.beside);
    for (const char* name : {"/absent", "/set/file"}) {
      const auto refused = resolve_roots({house.root.string() + name}, "--data-root");
      CHECK(refused.error().kind == ErrorKind::kUsage);
      CHECK(refused.error().message.find("--data-root") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace es::store
