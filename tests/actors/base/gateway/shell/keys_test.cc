#include "actors/base/gateway/shell/keys.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <string>

#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;

const CurveKeys kManualServer{.public_key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                              .secret_key = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"};

void write(const fs::path& file, const std::string& content) {
  std::ofstream(file) << content;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
}

TEST_SUITE("actors/base/gateway/keys") {
  TEST_CASE("a written pair is read back, and only its owner may read its file") {
    const test::TempDirectory dir;
    const CurveKeys keys = generate_keys();
    REQUIRE(write_key_file(dir.path() / "a.key", keys).ok());
    const Result<CurveKeys> read = read_key_file(dir.path() / "a.key");
    REQUIRE(read.ok());
    CHECK(*read == keys);
    struct stat info {};
    REQUIRE(::stat((dir.path() / "a.key").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    REQUIRE(write_public_key_file(dir.path() / "a.pub", keys.public_key).ok());
    CHECK(*read_public_key_file(dir.path() / "a.pub") == keys.public_key);
  }

  TEST_CASE("two generated pairs differ") {
    CHECK_FALSE(generate_keys() == generate_keys());
  }

  TEST_CASE("a key file is never overwritten") {
    const test::TempDirectory dir;
    const CurveKeys keys = generate_keys();
    REQUIRE(write_key_file(dir.path() / "a.key", keys).ok());
    CHECK_FALSE(write_key_file(dir.path() / "a.key", generate_keys()).ok());
    CHECK(*read_key_file(dir.path() / "a.key") == keys);
  }

  TEST_CASE("a secret key that other users may read is refused") {
    const test::TempDirectory dir;
    REQUIRE(write_key_file(dir.path() / "a.key", generate_keys()).ok());
    fs::permissions(dir.path() / "a.key", fs::perms::group_read, fs::perm_options::add);
    CHECK(read_key_file(dir.path() / "a.key").error().kind == ErrorKind::kRefused);
  }

  TEST_CASE(
      "every fault of a key file is an error that names the file and never prints the secret key") {
    const test::TempDirectory dir;
    const CurveKeys keys = generate_keys();
    const fs::path file = dir.path() / "bad.key";
    const std::string public_line = "public = " + keys.public_key + "\n";
    const std::string secret_line = "secret = " + keys.secret_key + "\n";
    const std::string bad_letter(40, '"');
    for (const std::string& content :
         {std::string(), public_line, secret_line, public_line + public_line + secret_line,
          public_line + "secret = short\n", public_line + "secret = " + bad_letter + "\n",
          public_line + secret_line + "rubbish\n",
          "public = " + generate_keys().public_key + "\n" + secret_line,
          public_line + "secret = " + keys.secret_key + "x\n"}) {
      write(file, content);
      const Result<CurveKeys> read = read_key_file(file);
      REQUIRE_MESSAGE(!read.ok(), content);
      CHECK(read.error().message.find(file.string()) != std::string::npos);
      CHECK(read.error().message.find(keys.secret_key) == std::string::npos);
    }
    CHECK(read_key_file(dir.path() / "none.key").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a public key file that holds a secret is refused") {
    const test::TempDirectory dir;
    REQUIRE(write_key_file(dir.path() / "a.pub", generate_keys()).ok());
    CHECK(read_public_key_file(dir.path() / "a.pub").error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("the key pair that ZeroMQ's manual prints is refused, as a pair and as a public key") {
    const test::TempDirectory dir;
    CHECK(is_published_key(kManualServer.public_key));
    CHECK_FALSE(is_published_key(generate_keys().public_key));
    REQUIRE(write_key_file(dir.path() / "a.key", kManualServer).ok());
    CHECK(read_key_file(dir.path() / "a.key").error().kind == ErrorKind::kRefused);
    REQUIRE(write_public_key_file(dir.path() / "a.pub", kManualServer.public_key).ok());
    CHECK(read_public_key_file(dir.path() / "a.pub").error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("a new cluster's keys are read back, with this machine authorized") {
    const test::TempDirectory dir;
    const fs::path keys_dir = dir.path() / "keys";
    REQUIRE(create_cluster_keys(keys_dir).ok());
    const Result<ClusterKeys> keys = read_cluster_keys(keys_dir);
    REQUIRE(keys.ok());
    REQUIRE(keys->server.has_value());
    CHECK(keys->server->public_key == keys->server_public);
    const Result<ClusterKeys> node = read_cluster_keys(keys_dir, KeyUse::kNode);
    REQUIRE(node.ok());
    const access::Identity admin{"admin", access::Role::kAdmin, ""};
    CHECK(keys->authorized ==
          access::AuthorizedKeys{{keys->client.public_key, {"admin", admin, false}},
                                 {node->client.public_key, {"self", {}, true}}});
    CHECK_FALSE(create_cluster_keys(keys_dir).ok());  // An existing cluster is never overwritten.
  }

  TEST_CASE("keys that cannot all be written leave none, so the next attempt succeeds") {
    const test::TempDirectory dir;
    const fs::path keys_dir = dir.path() / "keys";
    fs::create_directory(keys_dir);
    write(keys_dir / "authorized", "a file where the directory of the last key has to be");
    CHECK_FALSE(create_cluster_keys(keys_dir).ok());
    const std::set<fs::path> left{fs::directory_iterator(keys_dir), fs::directory_iterator()};
    CHECK(left == std::set<fs::path>{keys_dir / "authorized"});
    fs::remove(keys_dir / "authorized");
    REQUIRE(create_cluster_keys(keys_dir).ok());
    CHECK(read_cluster_keys(keys_dir).ok());
  }

  TEST_CASE("a machine that only connects requires only the public key of the server") {
    const test::TempDirectory dir;
    const fs::path keys_dir = dir.path() / "keys";
    REQUIRE(create_cluster_keys(keys_dir).ok());
    const std::string server_public = read_cluster_keys(keys_dir)->server_public;
    fs::remove(keys_dir / "server.key");
    fs::remove_all(keys_dir / "authorized");
    const Result<ClusterKeys> keys = read_cluster_keys(keys_dir);
    REQUIRE(keys.ok());
    CHECK_FALSE(keys->server.has_value());
    CHECK(keys->server_public == server_public);
    CHECK(keys->authorized.empty());
    fs::remove(keys_dir / "client.key");
    CHECK(read_cluster_keys(keys_dir).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a key for a client and one for a node are read back with their owners") {
    const test::TempDirectory dir;
    const fs::path keys_dir = dir.path() / "keys";
    REQUIRE(create_cluster_keys(keys_dir).ok());
    const access::KeyOwner alice{"alice",
                                 access::Identity{"alice", access::Role::kSubmit, "vision"}, false};
    const access::KeyOwner second{"second", {}, true};
    for (const access::KeyOwner& owner : {alice, second}) {
      CAPTURE(owner.name);
      const fs::path place = keys_dir / "for" / owner.name;
      REQUIRE(create_owned_keys(keys_dir, owner, place).ok());
      const auto own = read_cluster_keys(place, owner.node ? KeyUse::kNode : KeyUse::kClient);
      REQUIRE(own.ok());
      CHECK(own->server.has_value() == owner.node);
      const auto authorized = read_authorized(keys_dir / "authorized");
      REQUIRE(authorized.ok());
      CHECK(authorized->at(own->client.public_key) == owner);
      CHECK(create_owned_keys(keys_dir, owner, dir.path() / "other").error().kind ==
            ErrorKind::kRefused);
    }
    // The workers of a node accept the other nodes, and no clients.
    std::set<std::string> names;
    const auto nodes = read_authorized(keys_dir / "for/second/authorized");
    REQUIRE(nodes.ok());
    for (const auto& [key, owner] : *nodes) names.insert(owner.name);
    CHECK(names == std::set<std::string>{"self", "second"});
    REQUIRE(revoke_key(keys_dir, "alice").ok());
    CHECK(revoke_key(keys_dir, "alice").error().kind == ErrorKind::kNotFound);
    CHECK(read_authorized(keys_dir / "authorized")->size() == 3);
  }

  TEST_CASE("a key without a role is a node's and an operator's, and wrong roles are refused") {
    const test::TempDirectory dir;
    const std::string key = "public = " + generate_keys().public_key + "\n";
    write(dir.path() / "old.pub", key);
    const auto old = read_authorized(dir.path());
    REQUIRE(old.ok());
    CHECK(old->begin()->second ==
          access::KeyOwner{"old", access::Identity{"old", access::Role::kOperate, ""}, true});
    // The same key twice is allowed, but not with two roles.
    write(dir.path() / "copy.pub", key);
    CHECK(read_authorized(dir.path())->begin()->second.name == "copy");
    for (const std::string more :
         {"role = view\n", "role = root\n", "tenant = t\n", "role = node\ntenant = t\n",
          "role = view\ntenant = a b\n", "role = view\nrole = view\n", "rights = all\n"}) {
      CAPTURE(more);
      write(dir.path() / "copy.pub", key + more);
      const auto read = read_authorized(dir.path());
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().message.find(".pub") != std::string::npos);
    }
  }

  TEST_CASE(
      "one bad authorized key makes the directory unreadable, and other files do not matter") {
    const test::TempDirectory dir;
    const fs::path keys_dir = dir.path() / "keys";
    REQUIRE(create_cluster_keys(keys_dir).ok());
    write(keys_dir / "authorized" / "README", "not a key");
    CHECK(read_cluster_keys(keys_dir).ok());
    write(keys_dir / "authorized" / "b.pub", "public = short\n");
    CHECK(read_cluster_keys(keys_dir).error().message.find("b.pub") != std::string::npos);
  }
}

}  // namespace
}  // namespace es::actors
