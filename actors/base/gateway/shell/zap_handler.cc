// ZapHandler: answers ZeroMQ's requests to authenticate a connection (ZAP, ZeroMQ RFC 27).
#include "actors/base/gateway/shell/zap_handler.h"

#include <array>
#include <iterator>
#include <utility>
#include <vector>
#include <zmq_addon.hpp>

#include "actors/base/gateway/shell/keys.h"

namespace es::actors {
namespace {

constexpr char kAddress[] = "inproc://zeromq.zap.01";
constexpr char kVersion[] = "1.0";

// The parts of a request.
enum : std::size_t { kVersionPart, kRequestId, kDomain, kPeerAddress, kIdentity, kMechanism, kKey };

std::string key_of(const std::vector<zmq::message_t>& request) {
  // A request of another form has no key, and an empty key is never authorized.
  if (request.size() != kKey + 1 || request[kMechanism].to_string_view() != "CURVE" ||
      request[kKey].size() != kKeyBytes)
    return {};
  std::array<char, kZ85Chars + 1> text{};
  zmq_z85_encode(text.data(), request[kKey].data<std::uint8_t>(), kKeyBytes);
  return text.data();
}

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, access::AuthorizedKeys authorized)
    : socket_(context, zmq::socket_type::rep), authorized_(std::move(authorized)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(kAddress);
}

Result<std::unique_ptr<ZapHandler>> ZapHandler::bind(zmq::context_t& context,
                                                     access::AuthorizedKeys authorized) {
  try {
    return std::unique_ptr<ZapHandler>(new ZapHandler(context, std::move(authorized)));
  } catch (const zmq::error_t& error) {
    return failure(std::string("cannot check keys at ") + kAddress + ": " + error.what());
  }
}

bool ZapHandler::accepts(const std::string& public_key) const {
  // The secrets of the keys in ZeroMQ's manual are public, so these keys are refused even if a file
  // authorizes them.
  return authorized_.contains(public_key) && !is_published_key(public_key);
}

std::optional<ZapHandler::Decision> ZapHandler::answer() {
  try {
    std::vector<zmq::message_t> request;
    if (!zmq::recv_multipart(socket_, std::back_inserter(request), zmq::recv_flags::dontwait))
      return std::nullopt;
    Decision decision{.public_key = key_of(request)};
    decision.accepted = accepts(decision.public_key);
    // A REP socket must answer one request before it receives the next, so a malformed one is
    // answered too.
    const std::string id = request.size() > kRequestId ? request[kRequestId].to_string() : "";
    const std::string status = decision.accepted ? "200" : "400";
    const std::string text = decision.accepted ? "accepted" : "key is not authorized";
    // ZeroMQ attaches the user id to the messages of the connection. The loop learns from it which
    // key a peer has.
    const std::string user = decision.accepted ? decision.public_key : "";
    // The parts of a reply: version, request id, status, text, user id, metadata.
    zmq::send_multipart(socket_,
                        std::array<zmq::const_buffer, 6>{zmq::str_buffer(kVersion), zmq::buffer(id),
                                                         zmq::buffer(status), zmq::buffer(text),
                                                         zmq::buffer(user), zmq::const_buffer()});
    return decision;
  } catch (const zmq::error_t&) {
    return std::nullopt;  // the context is ending
  }
}

}  // namespace es::actors
