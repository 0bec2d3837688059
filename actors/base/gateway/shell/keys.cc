#include "actors/base/gateway/shell/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/private_file.h"
#include "proto/base/text.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServerKey = "server.key";
constexpr const char* kServerPub = "server.pub";
constexpr const char* kClientKey = "client.key";
constexpr const char* kNodeKey = "node.key";
constexpr const char* kAuthorized = "authorized";
constexpr std::string_view kPublicField = "public = ";
constexpr std::string_view kSecretField = "secret = ";
constexpr std::string_view kRoleField = "role = ";
constexpr std::string_view kTenantField = "tenant = ";
constexpr std::string_view kNodeRole = "node";

// The public keys of server and client in the example of zmq_curve(7).
constexpr std::array<std::string_view, 2> kPublished = {"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                                                        "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"};

struct KeyText {
  std::string public_key;
  std::string secret_key;    // empty in a .pub file
  std::string role, tenant;  // only of authorized keys; empty: none
};

// Takes the line if it begins with the name of the field and the field has no value yet.
bool take_field(const std::string& line, std::string_view field, std::string& value) {
  if (!line.starts_with(field) || !value.empty()) return false;
  value = line.substr(field.size());
  return true;
}

Result<KeyText> read_fields(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return not_found("key file " + file.string() + ": cannot be read; see `esctl keygen`");
  KeyText text;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (take_field(line, kPublicField, text.public_key) ||
        take_field(line, kSecretField, text.secret_key) ||
        take_field(line, kRoleField, text.role) || take_field(line, kTenantField, text.tenant))
      continue;
    return usage_error(
        "key file " + file.string() +
        ": allowed are lines \"public = KEY\", \"secret = KEY\", \"role = ROLE\" and "
        "\"tenant = NAME\", once each");
  }
  return text;
}

Result<access::KeyOwner> owner_of(const fs::path& file, const KeyText& text) {
  const auto wrong = [&](const std::string& what) {
    return usage_error("key file " + file.string() + ": " + what);
  };
  access::KeyOwner owner{.name = escaped(file.stem().string()), .client = {}, .node = true};
  if (!text.tenant.empty() && (text.role.empty() || text.role == kNodeRole))
    return wrong("a tenant is allowed only with one of the roles view, submit, operate, admin");
  if (text.role == kNodeRole) return owner;
  // Before there were roles, a machine had one key, for its node and for its clients.
  owner.client = {.name = owner.name, .role = access::Role::kOperate, .tenant = text.tenant};
  if (text.role.empty()) return owner;
  const auto role = access::parse_role(text.role);
  if (!role) return wrong(role.error().message + ", node");
  if (!text.tenant.empty() && !access::is_identity_name(text.tenant))
    return wrong("tenant: allowed are 1 to 64 letters, digits, '-', '_' and '.'");
  owner.client->role = *role;
  owner.node = false;
  return owner;
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

// Reads a .pub file.
Result<KeyText> read_public_fields(const fs::path& file) {
  Result<KeyText> text = read_fields(file);
  if (!text) return text.error();
  if (!text->secret_key.empty())
    return refused("key file " + file.string() +
                   ": holds a secret key; a .pub file holds only a public one");
  ES_RETURN_IF_ERROR(check_key(file, "public", text->public_key));
  ES_RETURN_IF_ERROR(check_not_published(file, text->public_key));
  return text;
}

Status check_private(const fs::path& file) {
  const Status is_private = check_private_file(file, "key file");
  if (is_private.ok() || is_private.error().kind != ErrorKind::kNotFound) return is_private;
  return not_found(is_private.error().message + "; make one with `esctl keygen`");
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
  // Writes a public file, or one with a secret key.
  Status add(const fs::path& file, const std::string& content) {
    return note(file, write_new_file(file, content, 0644));
  }
  Status add_key(const fs::path& file, const CurveKeys& keys) {
    return note(file, write_key_file(file, keys));
  }
  void keep() { paths_.clear(); }

 private:
  Status note(const fs::path& file, Status written) {
    if (written.ok()) paths_.push_back(file);
    return written;
  }

  std::vector<fs::path> paths_;
};

std::string public_text(const std::string& public_key) {
  return "# EasyScale public key.\n" + std::string(kPublicField) + public_key + "\n";
}

// The text of an authorized key.
std::string owned_text(const std::string& public_key, const access::KeyOwner& owner) {
  std::string text = public_text(public_key) + std::string(kRoleField);
  if (!owner.client) return text + std::string(kNodeRole) + "\n";
  text += std::string(role_name(owner.client->role)) + "\n";
  if (!owner.client->tenant.empty())
    text += std::string(kTenantField) + owner.client->tenant + "\n";
  return text;
}

// One key may be in several files, if they say the same of it.
Status add_key(const fs::path& file, const std::string& key, access::KeyOwner owner,
               access::AuthorizedKeys& keys) {
  const auto [at, is_new] = keys.try_emplace(key, owner);
  if (is_new) return {};
  access::KeyOwner& known = at->second;
  const bool same =
      known.node == owner.node && known.client.has_value() == owner.client.has_value() &&
      (!owner.client ||
       (known.client->role == owner.client->role && known.client->tenant == owner.client->tenant));
  if (!same)
    return refused("key file " + file.string() + ": the file " + known.name +
                   ".pub gives the same key another role or tenant");
  // The order of a directory is random.
  if (owner.name < known.name) known = std::move(owner);
  return {};
}

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
  const Result<KeyText> text = read_public_fields(file);
  if (!text) return text.error();
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
  return write_new_file(file, public_text(public_key), 0644);
}

Result<access::AuthorizedKeys> read_authorized(const fs::path& directory) {
  access::AuthorizedKeys keys;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".pub") continue;
    const Result<KeyText> text = read_public_fields(it->path());
    if (!text) return text.error();
    Result<access::KeyOwner> owner = owner_of(it->path(), *text);
    if (!owner) return owner.error();
    ES_RETURN_IF_ERROR(add_key(it->path(), text->public_key, *std::move(owner), keys));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return failure("key directory " + directory.string() + ": " + error.message());
  return keys;
}

Result<ClusterKeys> read_cluster_keys(const fs::path& directory, KeyUse use) {
  ClusterKeys keys;
  std::error_code unknown;
  const bool has_secret = fs::exists(directory / kServerKey, unknown);
  if (unknown)
    return failure("key directory " + directory.string() +
                   ": cannot be read: " + unknown.message());
  // A machine that only connects needs server.pub and has no server.key.
  if (has_secret) {
    Result<CurveKeys> server = read_key_file(directory / kServerKey);
    if (!server) return server.error();
    keys.server = *server;
    keys.server_public = server->public_key;
  } else {
    Result<std::string> server_public = read_public_key_file(directory / kServerPub);
    if (!server_public) return server_public.error();
    keys.server_public = *server_public;
  }
  const bool as_node = use == KeyUse::kNode && fs::exists(directory / kNodeKey, unknown);
  Result<CurveKeys> client = read_key_file(directory / (as_node ? kNodeKey : kClientKey));
  if (!client) return client.error();
  keys.client = *client;
  Result<access::AuthorizedKeys> authorized = read_authorized(directory / kAuthorized);
  if (!authorized) return authorized.error();
  keys.authorized = *std::move(authorized);
  return keys;
}

Status create_cluster_keys(const fs::path& directory) {
  std::error_code ignored;  // an unreadable path cannot be written either, which is reported then
  const fs::path authorized = directory / kAuthorized;
  const fs::path node_pub = authorized / "self.pub", admin_pub = authorized / "admin.pub";
  // All files are checked before the first one is written, so an existing set of keys is never
  // mixed with new ones.
  for (const fs::path& file : {directory / kServerKey, directory / kServerPub,
                               directory / kClientKey, directory / kNodeKey, node_pub, admin_pub})
    if (fs::exists(fs::symlink_status(file, ignored))) return exists_already(file);
  const CurveKeys server = generate_keys();
  const CurveKeys client = generate_keys();
  const CurveKeys node = generate_keys();
  // A part of a set, which a full disk could leave, would be refused by the next call.
  NewPaths made;
  ES_RETURN_IF_ERROR(made.make_directory(directory));
  ES_RETURN_IF_ERROR(made.make_directory(authorized));
  ES_RETURN_IF_ERROR(made.add_key(directory / kServerKey, server));
  ES_RETURN_IF_ERROR(made.add(directory / kServerPub, public_text(server.public_key)));
  ES_RETURN_IF_ERROR(made.add_key(directory / kClientKey, client));
  ES_RETURN_IF_ERROR(made.add_key(directory / kNodeKey, node));
  ES_RETURN_IF_ERROR(made.add(node_pub, owned_text(node.public_key, {"self", {}, true})));
  ES_RETURN_IF_ERROR(
      made.add(admin_pub,
               owned_text(client.public_key,
                          {"admin", access::Identity{"admin", access::Role::kAdmin, ""}, false})));
  made.keep();
  return {};
}

Status create_owned_keys(const fs::path& directory, const access::KeyOwner& owner,
                         const fs::path& handed_over) {
  const auto server = read_key_file(directory / kServerKey);
  if (!server) return server.error();
  const auto authorized = read_authorized(directory / kAuthorized);
  if (!authorized) return authorized.error();
  const fs::path own_pub = directory / kAuthorized / (owner.name + ".pub");
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(own_pub, ignored)))
    return refused("key file " + own_pub.string() +
                   " exists: allowed is a new name, or `esctl keys revoke` first");
  if (fs::exists(fs::symlink_status(handed_over, ignored))) return exists_already(handed_over);
  const CurveKeys own = generate_keys();
  NewPaths made;
  ES_RETURN_IF_ERROR(made.make_directory(handed_over.parent_path()));
  ES_RETURN_IF_ERROR(made.make_directory(handed_over));
  ES_RETURN_IF_ERROR(made.add(handed_over / kServerPub, public_text(server->public_key)));
  ES_RETURN_IF_ERROR(made.add_key(handed_over / (owner.node ? kNodeKey : kClientKey), own));
  if (owner.node) {
    // The workers of a node listen too, and accept the other nodes.
    ES_RETURN_IF_ERROR(made.add_key(handed_over / kServerKey, *server));
    ES_RETURN_IF_ERROR(made.make_directory(handed_over / kAuthorized));
    ES_RETURN_IF_ERROR(made.add(handed_over / kAuthorized / (owner.name + ".pub"),
                                owned_text(own.public_key, owner)));
    for (const auto& [key, other] : *authorized)
      if (other.node)
        ES_RETURN_IF_ERROR(made.add(handed_over / kAuthorized / (other.name + ".pub"),
                                    owned_text(key, {other.name, {}, true})));
  }
  // The key is admitted last, when its owner can have it.
  ES_RETURN_IF_ERROR(made.add(own_pub, owned_text(own.public_key, owner)));
  made.keep();
  return {};
}

Status revoke_key(const fs::path& directory, const std::string& name) {
  const fs::path file = directory / kAuthorized / (name + ".pub");
  if (::unlink(file.c_str()) == 0) return {};
  const std::string what = "key file " + file.string() + ": " + std::strerror(errno);
  return errno == ENOENT ? not_found(what) : failure(what);
}

}  // namespace es::actors
