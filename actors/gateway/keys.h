#pragma once
// CURVE keys: which processes may talk to each other over TCP, and the files they live in.
//
// A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ RFC 32). Files:
//
//   NAME.key   two lines, "public = Z85" and "secret = Z85"; mode 0600, refused when wider.
//   NAME.pub   one line, "public = Z85"; no secret.
//
// Lines that start with # and empty lines are skipped. A cluster's key directory (mode 0700):
//
//   server.key          pair of the processes that listen, the same on every node of a cluster
//   server.pub          its public half: all that a machine needs which only connects
//   client.key          pair by which this machine's processes are known when they connect
//   authorized/*.pub    public keys that may connect to us. Adding a file lets its key in, removing
//                       it shuts the key out, within seconds and without a restart
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
  std::string server_public;         // who we expect to answer when we connect
  CurveKeys client;                  // who we are when we connect
  std::set<std::string> authorized;  // who may connect to us
};

// A new random pair.
CurveKeys generate_keys();

// A key whose secret half is printed in ZeroMQ's manual, so that everybody has it.
bool is_published_key(const std::string& public_key);

// Errors name the file and the fault: absent, open to other users, not Z85, the halves do not
// belong together, a published key. The text never contains a secret.
Result<CurveKeys> read_key_file(const std::filesystem::path& file);
Result<std::string> read_public_key_file(const std::filesystem::path& file);

// Error: refused, the file exists (a key is never overwritten); or it cannot be written.
Status write_key_file(const std::filesystem::path& file, const CurveKeys& keys);
Status write_public_key_file(const std::filesystem::path& file, const std::string& public_key);

// The public keys in a directory of .pub files. Error: one of them is bad, or it cannot be read.
Result<std::set<std::string>> read_authorized(const std::filesystem::path& directory);

// Reads a key directory. Error: client.key, or both server.key and server.pub, are absent or bad.
Result<ClusterKeys> read_cluster_keys(const std::filesystem::path& directory);

// Creates a key directory for a new cluster, with this machine's client key authorized. Error: as
// above; when one of its files exists, none is written.
Status create_cluster_keys(const std::filesystem::path& directory);

}  // namespace es::actors
