#pragma once
// CURVE keys, which decide which processes may talk to each other over TCP, and their files.
//
// A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ RFC 32). Files:
//
//   NAME.key   two lines, "public = Z85" and "secret = Z85"; mode 0600, refused with a wider mode
//   NAME.pub   "public = Z85"; no secret. In the directory of authorized keys also whose key it is:
//              "role = view", submit, operate, admin or node, and for a client "tenant = NAME"
//
// Empty lines and lines that begin with # are skipped. The key directory of a cluster (mode 0700):
//
//   server.key          pair of all processes that listen, the same on every node of a cluster
//   server.pub          its public half; a machine that only connects needs no more
//   client.key          pair of the clients of this machine
//   node.key            pair with which the node and the workers of this machine connect; without
//                       the file they use client.key
//   authorized/*.pub    public keys that may connect. Adding a file admits its key, changing it
//                       changes what its owner may do, and removing it locks the key out, within
//                       seconds and without a restart
//
// A key without a role is one of the release before roles: it is a node's key, and a client's with
// the role operate.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/base/access/core/identity.h"
#include "proto/base/result.h"

namespace es::actors {

// A key, and its text.
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kZ85Chars = 40;

struct CurveKeys {
  std::string public_key;  // Z85
  std::string secret_key;  // Z85
  bool operator==(const CurveKeys&) const = default;
};

struct ClusterKeys {
  std::optional<CurveKeys> server;    // absent on a machine that only connects
  std::string server_public;          // the key that must answer when this process connects
  CurveKeys client;                   // the key of this process when it connects
  access::AuthorizedKeys authorized;  // the keys that may connect
};

// Which key a process uses when it connects: client.key, or node.key if that exists.
enum class KeyUse { kClient, kNode };

// Returns a new random pair.
CurveKeys generate_keys();

// Returns whether the secret half of this key is printed in ZeroMQ's manual, so that anyone has it.
bool is_published_key(const std::string& public_key);

// Errors name the file and the fault: it is absent, other users may read it, it is not Z85, its
// halves do not belong together, or it is a published key. The message never contains a secret.
Result<CurveKeys> read_key_file(const std::filesystem::path& file);
Result<std::string> read_public_key_file(const std::filesystem::path& file);

// Error: refused if the file exists, since a key is never overwritten; or the file cannot be
// written.
Status write_key_file(const std::filesystem::path& file, const CurveKeys& keys);
Status write_public_key_file(const std::filesystem::path& file, const std::string& public_key);

// Returns the keys in a directory of .pub files with their owners. Error: the directory cannot be
// read, one of the files is bad, or two files give the same key to different owners.
Result<access::AuthorizedKeys> read_authorized(const std::filesystem::path& directory);

// Reads a key directory. Error: the key for this use, or both server.key and server.pub, are absent
// or bad.
Result<ClusterKeys> read_cluster_keys(const std::filesystem::path& directory,
                                      KeyUse use = KeyUse::kClient);

// Creates a key directory for a new cluster. Its node key is authorized as self.pub, and its client
// key, of an administrator, as admin.pub. Errors: those of write_key_file. If one of its files
// exists, no file is written. After an error nothing that this call has created is left.
Status create_cluster_keys(const std::filesystem::path& directory);

// Makes a key for `owner`, who is either a client or a node, and authorizes it in the key directory
// of a cluster. `handed_over` is a new directory for the owner: for a client with client.key and
// server.pub; for a node with node.key, server.key, server.pub and the authorized nodes. Errors:
// those of write_key_file and read_cluster_keys; refused, there is a key of this name. After an
// error nothing that this call has created is left.
Status create_owned_keys(const std::filesystem::path& directory, const access::KeyOwner& owner,
                         const std::filesystem::path& handed_over);

// Removes the key of this name from the authorized ones. Error: not found, or it cannot be removed.
Status revoke_key(const std::filesystem::path& directory, const std::string& name);

}  // namespace es::actors
