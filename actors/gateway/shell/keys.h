#pragma once
// CURVE keys, which decide which processes may talk to each other over TCP, and their files.
//
// A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ RFC 32). Files:
//
//   NAME.key   two lines, "public = Z85" and "secret = Z85"; mode 0600, refused with a wider mode
//   NAME.pub   one line, "public = Z85"; no secret
//
// Empty lines and lines that begin with # are skipped. The key directory of a cluster (mode 0700):
//
//   server.key          pair of all processes that listen, the same on every node of a cluster
//   server.pub          its public half; a machine that only connects needs no more
//   client.key          pair that identifies this machine's processes when they connect
//   authorized/*.pub    public keys that may connect. Adding a file admits its key, and
//                       removing it locks the key out, within seconds and without a restart
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "proto/base/result.h"

namespace es::actors {

struct CurveKeys {
  std::string public_key;  // Z85
  std::string secret_key;  // Z85
  bool operator==(const CurveKeys&) const = default;
};

struct ClusterKeys {
  std::optional<CurveKeys> server;   // absent on a machine that only connects
  std::string server_public;         // the key that must answer when this process connects
  CurveKeys client;                  // the key of this process when it connects
  std::set<std::string> authorized;  // the keys that may connect
};

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

// Returns the public keys in a directory of .pub files. Error: the directory cannot be read, or one
// of the files is bad.
Result<std::set<std::string>> read_authorized(const std::filesystem::path& directory);

// Reads a key directory. Error: client.key, or both server.key and server.pub, are absent or bad.
Result<ClusterKeys> read_cluster_keys(const std::filesystem::path& directory);

// Creates a key directory for a new cluster, in which this machine's client key is authorized.
// Errors: those of write_key_file. If one of its files exists, no file is written. After an error
// nothing that this call has created is left.
Status create_cluster_keys(const std::filesystem::path& directory);

}  // namespace es::actors
