#include "actors/gateway/shell/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

namespace es::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kZ85Chars = 40;
constexpr std::size_t kKeyBytes = 32;
constexpr std::string_view kPublicField = "public = ";
constexpr std::string_view kSecretField = "secret = ";

// The public keys of server and client in the example of zmq_curve(7).
constexpr std::array<std::string_view, 2> kPublished = {"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                                                        "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"};

struct KeyText {
  std::string public_key;
  std::string secret_key;  // empty in a .pub file
};

Result<KeyText> read_fields(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return not_found("key file " + file.string() + ": cannot be read; see `esctl keygen`");
  KeyText text;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with(kPublicField) && text.public_key.empty()) {
      text.public_key = line.substr(kPublicField.size());
    } else if (line.starts_with(kSecretField) && text.secret_key.empty()) {
      text.secret_key = line.substr(kSecretField.size());
    } else {
      return usage_error("key file " + file.string() +
                         ": a line is not \"public = KEY\" or \"secret = KEY\", once each");
    }
  }
  return text;
}

Status check_key(const fs::path& file, const char* field, const std::string& key) {
  std::array<std::uint8_t, kKeyBytes> bytes{};
  // The length is checked first, because zmq_z85_decode writes as many bytes as the text is long.
  if (key.size() != kZ85Chars || zmq_z85_decode(bytes.data(), key.c_str()) == nullptr)
    return usage_error("key file " + file.string() + ": " + field + " key: has " +
                       std::to_string(key.size()) + " characters or a wrong one; a key is " +
                       std::to_string(kZ85Chars) + " characters of Z85");
  return {};
}

Status check_not_published(const fs::path& file, const std::string& public_key) {
  if (!is_published_key(public_key)) return {};
  return refused("key file " + file.string() +
                 ": this key pair is printed in ZeroMQ's manual, so its secret is public; create "
                 "another one with `esctl keygen`");
}

Status check_private(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return not_found("key file " + file.string() + ": " + std::strerror(errno) +
                     "; make one with `esctl keygen`");
  if ((info.st_mode & 077) != 0)
    return refused("key file " + file.string() + ": other users may read it; set mode 0600");
  return {};
}

Error exists_already(const fs::path& file) {
  return refused("key file " + file.string() +
                 " exists, and a key is never overwritten: allowed is a new directory");
}

Status write_new_file(const fs::path& file, const std::string& content, int mode) {
  // O_EXCL and the mode make the file new and private from its first moment. It never contains a
  // secret while others can read it.
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    if (errno == EEXIST) return exists_already(file);
    return failure("key file " + file.string() + ": " + std::strerror(errno));
  }
  const bool written =
      ::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const bool durable = written && ::fsync(fd) == 0;
  ::close(fd);
  if (durable) return {};
  // Half a key file would prevent the next attempt, because existing files are never overwritten.
  ::unlink(file.c_str());
  return failure("key file " + file.string() + ": cannot be written");
}

// The files and directories that a call has created. The destructor removes them again, unless
// keep() was called.
class NewPaths {
 public:
  NewPaths() = default;
  NewPaths(const NewPaths&) = delete;
  NewPaths& operator=(const NewPaths&) = delete;
  ~NewPaths() {
    std::error_code ignored;
    // The newest one comes first, because a directory has to be empty.
    while (!paths_.empty()) {
      fs::remove(paths_.back(), ignored);
      paths_.pop_back();
    }
  }

  // Creates the directory. It is no error if it exists, and then it is not removed.
  Status make_directory(const fs::path& directory) {
    if (::mkdir(directory.c_str(), 0700) == 0)
      paths_.push_back(directory);
    else if (errno != EEXIST)
      return failure("key directory " + directory.string() + ": " + std::strerror(errno));
    return {};
  }
  // Adds a file, if it was written.
  Status add(const fs::path& file, Status written) {
    if (written.ok()) paths_.push_back(file);
    return written;
  }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

}  // namespace

CurveKeys generate_keys() {
  std::array<char, kZ85Chars + 1> public_key{};
  std::array<char, kZ85Chars + 1> secret_key{};
  ES_CHECK_MSG(zmq_curve_keypair(public_key.data(), secret_key.data()) == 0,
               "libzmq is built without CURVE");
  return {.public_key = public_key.data(), .secret_key = secret_key.data()};
}

bool is_published_key(const std::string& public_key) {
  return std::find(kPublished.begin(), kPublished.end(), public_key) != kPublished.end();
}

Result<CurveKeys> read_key_file(const fs::path& file) {
  // The permissions are checked first: the secret of a file that others can read is not used at
  // all.
  ES_RETURN_IF_ERROR(check_private(file));
  Result<KeyText> text = read_fields(file);
  if (!text) return text.error();
  ES_RETURN_IF_ERROR(check_key(file, "public", text->public_key));
  ES_RETURN_IF_ERROR(check_key(file, "secret", text->secret_key));
  std::array<char, kZ85Chars + 1> derived{};
  if (zmq_curve_public(derived.data(), text->secret_key.c_str()) != 0 ||
      text->public_key != derived.data())
    return usage_error("key file " + file.string() +
                       ": the public key does not belong to the secret key");
  ES_RETURN_IF_ERROR(check_not_published(file, text->public_key));
  return CurveKeys{.public_key = text->public_key, .secret_key = text->secret_key};
}

Result<std::string> read_public_key_file(const fs::path& file) {
  Result<KeyText> text = read_fields(file);
  if (!text) return text.error();
  if (!text->secret_key.empty())
    return refused("key file " + file.string() +
                   ": holds a secret key; a .pub file holds only a public one");
  ES_RETURN_IF_ERROR(check_key(file, "public", text->public_key));
  ES_RETURN_IF_ERROR(check_not_published(file, text->public_key));
  return text->public_key;
}

Status write_key_file(const fs::path& file, const CurveKeys& keys) {
  return write_new_file(file,
                        std::string("# EasyScale key pair. Keep it secret.\n") +
                            std::string(kPublicField) + keys.public_key + "\n" +
                            std::string(kSecretField) + keys.secret_key + "\n",
                        0600);
}

Status write_public_key_file(const fs::path& file, const std::string& public_key) {
  return write_new_file(
      file,
      std::string("# EasyScale public key.\n") + std::string(kPublicField) + public_key + "\n",
      0644);
}

Result<std::set<std::string>> read_authorized(const fs::path& directory) {
  std::set<std::string> keys;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".pub") continue;
    Result<std::string> key = read_public_key_file(it->path());
    if (!key) return key.error();
    keys.insert(*std::move(key));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return failure("key directory " + directory.string() + ": " + error.message());
  return keys;
}

Result<ClusterKeys> read_cluster_keys(const fs::path& directory) {
  ClusterKeys keys;
  std::error_code unknown;
  const bool has_secret = fs::exists(directory / "server.key", unknown);
  if (unknown)
    return failure("key directory " + directory.string() +
                   ": cannot be read: " + unknown.message());
  // A machine that only connects needs server.pub and has no server.key.
  if (has_secret) {
    Result<CurveKeys> server = read_key_file(directory / "server.key");
    if (!server) return server.error();
    keys.server = *server;
    keys.server_public = server->public_key;
  } else {
    Result<std::string> server_public = read_public_key_file(directory / "server.pub");
    if (!server_public) return server_public.error();
    keys.server_public = *server_public;
  }
  Result<CurveKeys> client = read_key_file(directory / "client.key");
  if (!client) return client.error();
  keys.client = *client;
  Result<std::set<std::string>> authorized = read_authorized(directory / "authorized");
  if (!authorized) return authorized.error();
  keys.authorized = *std::move(authorized);
  return keys;
}

Status create_cluster_keys(const fs::path& directory) {
  std::error_code ignored;  // an unreadable path cannot be written either, which is reported then
  // All files are checked before the first one is written, so an existing set of keys is never
  // mixed with new ones.
  for (const char* file : {"server.key", "server.pub", "client.key", "authorized/self.pub"})
    if (fs::exists(fs::symlink_status(directory / file, ignored)))
      return exists_already(directory / file);
  const fs::path server_key = directory / "server.key", server_pub = directory / "server.pub",
                 client_key = directory / "client.key", authorized = directory / "authorized",
                 self_pub = authorized / "self.pub";
  const CurveKeys server = generate_keys();
  const CurveKeys client = generate_keys();
  // A part of a set, which a full disk could leave, would be refused by the next call.
  NewPaths made;
  ES_RETURN_IF_ERROR(made.make_directory(directory));
  ES_RETURN_IF_ERROR(made.make_directory(authorized));
  ES_RETURN_IF_ERROR(made.add(server_key, write_key_file(server_key, server)));
  ES_RETURN_IF_ERROR(made.add(server_pub, write_public_key_file(server_pub, server.public_key)));
  ES_RETURN_IF_ERROR(made.add(client_key, write_key_file(client_key, client)));
  ES_RETURN_IF_ERROR(made.add(self_pub, write_public_key_file(self_pub, client.public_key)));
  made.keep();
  return {};
}

}  // namespace es::actors
