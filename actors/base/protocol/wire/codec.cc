#include "actors/base/protocol/wire/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "actors/base/protocol/core/decisions.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "proto/base/check.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors::protocol {
namespace {

// This is more than any optimizer has. It limits what a message of a faulty peer can make this
// process allocate.
constexpr std::size_t kMomentsMax = 8;

Envelope envelope_of(const JobId& job, const Stamp& stamp, Version step = 0) {
  Envelope envelope;
  envelope.job = job;
  envelope.generation = stamp.generation;
  envelope.sender = stamp.sender;
  envelope.step = step;
  return envelope;
}

Stamp stamp_from(const Frame& frame) {
  return {frame.envelope.generation, frame.envelope.sender};
}

// Reports a field outside its range. decode() turns it into an Error, like other malformed content.
[[noreturn]] void reject(const char* field, std::uint64_t value) {
  throw std::runtime_error(std::string(field) + " = " + std::to_string(value) + " is out of range");
}

capnp::Data::Reader data_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

Bytes bytes_from(capnp::Data::Reader data) {
  std::vector<std::byte> bytes(data.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), data.begin(), bytes.size());
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

void put(wire::Digest::Builder b, const Digest& digest) {
  b.setHigh(digest.high);
  b.setLow(digest.low);
}

Digest digest_from(wire::Digest::Reader r) {
  return {r.getHigh(), r.getLow()};
}

void put(wire::Bulk::Builder b, const Bulk& bulk) {
  // Bytes that exist only in GPU memory leave the worker only through a channel. In a message
  // without a transfer the receiver would take unrelated bytes of the segment for a gradient.
  ES_CHECK(bulk.in_host || bulk.transfer != 0);
  if (bulk.inline_bytes) {
    b.setInlined(data_of(*bulk.inline_bytes));
    return;
  }
  if (bulk.remote) {
    auto remote = b.initRemote();
    remote.setName(bulk.segment);
    remote.setOffset(bulk.offset);
    remote.setBytes(bulk.bytes);
    return;
  }
  if (bulk.transfer != 0) {
    auto channel = b.initChannel();
    channel.setTransfer(bulk.transfer);
    channel.setBytes(bulk.bytes);
    return;
  }
  auto segment = b.initSegment();
  segment.setName(bulk.segment);
  segment.setOffset(bulk.offset);
  segment.setBytes(bulk.bytes);
}

Bulk bulk_from(wire::Bulk::Reader r) {
  Bulk bulk;
  if (r.isInlined()) {
    bulk.inline_bytes = bytes_from(r.getInlined());
    bulk.bytes = bulk.inline_bytes->size();
    return bulk;
  }
  if (r.isChannel()) {
    bulk.transfer = r.getChannel().getTransfer();
    bulk.bytes = r.getChannel().getBytes();
    if (bulk.transfer == 0) reject("bulk transfer", 0);
    return bulk;
  }
  const auto refer = [&bulk](auto segment) {
    bulk.segment = segment.getName().cStr();
    bulk.offset = segment.getOffset();
    bulk.bytes = segment.getBytes();
  };
  bulk.remote = r.isRemote();
  bulk.remote ? refer(r.getRemote()) : refer(r.getSegment());
  if (bulk.segment.empty()) reject("bulk segment length", 0);
  // A range that wraps around would pass a comparison of its end with the size of the segment.
  if (bulk.offset + bulk.bytes < bulk.offset) reject("bulk offset", bulk.offset);
  return bulk;
}

template <class ListBuilder>
void put_results(ListBuilder list, const std::vector<RankResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto b = list[i];
    b.setRank(results[i].rank);
    b.setLossBits(results[i].loss_bits);
    b.setContext(data_of(*results[i].context));
  }
}

std::vector<RankResult> results_from(capnp::List<wire::RankResult>::Reader list) {
  std::vector<RankResult> results;
  results.reserve(list.size());
  for (const auto r : list) {
    // The ranks ascend, so none can occur twice.
    if (!results.empty() && r.getRank() <= results.back().rank) reject("rank", r.getRank());
    results.push_back({r.getRank(), r.getLossBits(), bytes_from(r.getContext())});
  }
  return results;
}

void put(wire::LedgerLine::Builder b, const LedgerLine& line) {
  b.setVersion(line.version);
  auto losses = b.initLossBits(line.loss_bits.size());
  for (std::size_t i = 0; i < line.loss_bits.size(); ++i) losses.set(i, line.loss_bits[i]);
  put(b.initParams(), line.params);
  b.setHasState(line.state.has_value());
  if (line.state) put(b.initState(), *line.state);
}

LedgerLine line_from(wire::LedgerLine::Reader r) {
  LedgerLine line{r.getVersion(), {}, digest_from(r.getParams()), {}};
  for (const std::uint32_t bits : r.getLossBits()) line.loss_bits.push_back(bits);
  if (r.getHasState()) line.state = digest_from(r.getState());
  return line;
}

// Numbers of buckets, which ascend, so none can occur twice.
std::vector<std::uint32_t> buckets_from(capnp::List<std::uint32_t>::Reader list) {
  std::vector<std::uint32_t> buckets;
  for (const std::uint32_t bucket : list) {
    if (!buckets.empty() && bucket <= buckets.back()) reject("bucket", bucket);
    buckets.push_back(bucket);
  }
  return buckets;
}

void put_numbers(capnp::List<std::uint32_t>::Builder list, const std::vector<std::uint32_t>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) list.set(i, from[i]);
}

// Numbers of parameters, four bytes each.
Bytes squares_from(capnp::Data::Reader data) {
  if (data.size() % 4 != 0) reject("squares", data.size());
  return data.size() == 0 ? Bytes() : bytes_from(data);
}

// --- worker <-> worker

FramePtr to_frame(const JobId& job, const Contrib& m) {
  return Msg<wire::Contrib>::build(envelope_of(job, m.stamp, m.step),
                                   [&](wire::Contrib::Builder b) {
                                     b.setBucket(m.bucket);
                                     b.setRankBegin(m.ranks.begin);
                                     b.setRankEnd(m.ranks.end);
                                     put(b.initData(), m.data);
                                     put_results(b.initResults(m.results.size()), m.results);
                                     b.setDrain(m.drain);
                                   })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Contrib::Reader r) {
  if (r.getRankBegin() >= r.getRankEnd()) reject("rankEnd", r.getRankEnd());
  return Contrib{stamp_from(frame),
                 frame.envelope.step,
                 r.getBucket(),
                 {r.getRankBegin(), r.getRankEnd()},
                 bulk_from(r.getData()),
                 results_from(r.getResults()),
                 r.getDrain()};
}

FramePtr to_frame(const JobId& job, const Reduced& m) {
  return Msg<wire::Reduced>::build(envelope_of(job, m.stamp, m.step),
                                   [&](wire::Reduced::Builder b) {
                                     b.setBucket(m.bucket);
                                     put(b.initData(), m.data);
                                     put_results(b.initResults(m.results.size()), m.results);
                                     b.setDrain(m.drain);
                                   })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Reduced::Reader r) {
  return Reduced{stamp_from(frame),      frame.envelope.step,          r.getBucket(),
                 bulk_from(r.getData()), results_from(r.getResults()), r.getDrain()};
}

FramePtr to_frame(const JobId& job, const Fetch& m) {
  return Msg<wire::Fetch>::build(envelope_of(job, m.stamp, m.version),
                                 [&](wire::Fetch::Builder b) {
                                   b.setAddress(m.address);
                                   b.setHostId(m.host_id);
                                 })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Fetch::Reader r) {
  return Fetch{stamp_from(frame), frame.envelope.step, r.getAddress().cStr(), r.getHostId().cStr()};
}

FramePtr to_frame(const JobId& job, const State& m) {
  return Msg<wire::State>::build(envelope_of(job, m.stamp, m.version),
                                 [&](wire::State::Builder b) {
                                   put(b.initParams(), m.digests.params);
                                   put(b.initState(), m.digests.state);
                                   put(b.initParameters(), m.parameters);
                                   auto moments = b.initMoments(m.moments.size());
                                   for (std::size_t i = 0; i < m.moments.size(); ++i)
                                     put(moments[i], m.moments[i]);
                                   auto contexts = b.initContexts(m.contexts.size());
                                   for (std::size_t i = 0; i < m.contexts.size(); ++i)
                                     contexts.set(i, data_of(*m.contexts[i]));
                                   auto lines = b.initUnacknowledged(m.unacknowledged.size());
                                   for (std::size_t i = 0; i < m.unacknowledged.size(); ++i)
                                     put(lines[i], m.unacknowledged[i]);
                                 })
      .frame();
}

PeerMessage from(const Frame& frame, wire::State::Reader r) {
  State m{stamp_from(frame),
          frame.envelope.step,
          {digest_from(r.getParams()), digest_from(r.getState())},
          bulk_from(r.getParameters()),
          {},
          {},
          {}};
  if (r.getMoments().size() > kMomentsMax) reject("number of moments", r.getMoments().size());
  for (const auto moment : r.getMoments()) m.moments.push_back(bulk_from(moment));
  for (const auto context : r.getContexts()) m.contexts.push_back(bytes_from(context));
  for (const auto line : r.getUnacknowledged()) m.unacknowledged.push_back(line_from(line));
  return m;
}

FramePtr to_frame(const JobId& job, const Complete& m) {
  return Msg<wire::Complete>::build(envelope_of(job, m.stamp, m.step),
                                    [&](wire::Complete::Builder b) {
                                      b.setBucket(m.bucket);
                                      put_results(b.initResults(m.results.size()), m.results);
                                      b.setDrain(m.drain);
                                      if (m.squares) b.setSquares(data_of(*m.squares));
                                    })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Complete::Reader r) {
  return Complete{stamp_from(frame), frame.envelope.step,
                  r.getBucket(),     results_from(r.getResults()),
                  r.getDrain(),      squares_from(r.getSquares())};
}

FramePtr to_frame(const JobId& job, const Updated& m) {
  return Msg<wire::Updated>::build(envelope_of(job, m.stamp, m.step),
                                   [&](wire::Updated::Builder b) {
                                     b.setBucket(m.bucket);
                                     put(b.initData(), m.data);
                                   })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Updated::Reader r) {
  return Updated{stamp_from(frame), frame.envelope.step, r.getBucket(), bulk_from(r.getData())};
}

FramePtr to_frame(const JobId& job, const FetchShards& m) {
  return Msg<wire::FetchShards>::build(envelope_of(job, m.stamp, m.version),
                                       [&](wire::FetchShards::Builder b) {
                                         put_numbers(b.initParameters(m.parameters.size()),
                                                     m.parameters);
                                         put_numbers(b.initMoments(m.moments.size()), m.moments);
                                         b.setRest(m.rest);
                                         b.setFrozen(m.frozen);
                                         b.setAddress(m.address);
                                         b.setHostId(m.host_id);
                                       })
      .frame();
}

PeerMessage from(const Frame& frame, wire::FetchShards::Reader r) {
  return FetchShards{.stamp = stamp_from(frame),
                     .version = frame.envelope.step,
                     .parameters = buckets_from(r.getParameters()),
                     .moments = buckets_from(r.getMoments()),
                     .rest = r.getRest(),
                     .frozen = r.getFrozen(),
                     .address = r.getAddress().cStr(),
                     .host_id = r.getHostId().cStr()};
}

FramePtr to_frame(const JobId& job, const Shards& m) {
  return Msg<wire::Shards>::build(envelope_of(job, m.stamp, m.version),
                                  [&](wire::Shards::Builder b) {
                                    put_numbers(b.initParameters(m.parameters.size()),
                                                m.parameters);
                                    put_numbers(b.initMoments(m.moments.size()), m.moments);
                                    b.setRest(m.rest);
                                    b.setFrozen(m.frozen);
                                    put(b.initData(), m.data);
                                    put(b.initDigest(), m.digest);
                                    auto contexts = b.initContexts(m.contexts.size());
                                    for (std::size_t i = 0; i < m.contexts.size(); ++i)
                                      contexts.set(i, data_of(*m.contexts[i]));
                                    put_numbers(b.initLosses(m.losses.size()), m.losses);
                                    if (m.squares) b.setSquares(data_of(*m.squares));
                                    b.setDrain(m.drain);
                                    auto lines = b.initUnacknowledged(m.unacknowledged.size());
                                    for (std::size_t i = 0; i < m.unacknowledged.size(); ++i)
                                      put(lines[i], m.unacknowledged[i]);
                                  })
      .frame();
}

PeerMessage from(const Frame& frame, wire::Shards::Reader r) {
  Shards m{.stamp = stamp_from(frame),
           .version = frame.envelope.step,
           .parameters = buckets_from(r.getParameters()),
           .moments = buckets_from(r.getMoments()),
           .rest = r.getRest(),
           .frozen = r.getFrozen(),
           .data = bulk_from(r.getData()),
           .digest = digest_from(r.getDigest()),
           .contexts = {},
           .losses = {},
           .squares = squares_from(r.getSquares()),
           .drain = r.getDrain(),
           .unacknowledged = {}};
  for (const auto context : r.getContexts()) m.contexts.push_back(bytes_from(context));
  for (const std::uint32_t bits : r.getLosses()) m.losses.push_back(bits);
  // Each loss belongs to a context.
  if (!m.losses.empty() && m.losses.size() != m.contexts.size())
    reject("number of losses", m.losses.size());
  for (const auto line : r.getUnacknowledged()) m.unacknowledged.push_back(line_from(line));
  return m;
}

// --- worker -> head

void put(wire::Device::Builder b, const DeviceId& device) {
  b.setNode(device.node);
  b.setType(device.type.name);
  b.setIndex(device.index);
}

FramePtr to_frame(const JobId& job, const Hello& m) {
  return Msg<wire::Hello>::build(envelope_of(job, m.stamp),
                                 [&](wire::Hello::Builder b) {
                                   put(b.initDevice(), m.device);
                                   b.setAddress(m.address);
                                   b.setHostId(m.host_id);
                                   b.setChannelKind(m.channel.kind);
                                   b.setChannelDevice(m.channel.device);
                                   b.setKernels(m.kernels);
                                 })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Hello::Reader r) {
  const auto d = r.getDevice();
  return Hello{stamp_from(frame),
               {d.getNode().cStr(), {d.getType().cStr()}, d.getIndex()},
               r.getAddress().cStr(),
               r.getHostId().cStr(),
               {r.getChannelKind().cStr(), r.getChannelDevice().cStr()},
               text_of(r.getKernels(), "kernels")};
}

FramePtr to_frame(const JobId& job, const Report& m) {
  return Msg<wire::Report>::build(envelope_of(job, m.stamp),
                                  [&](wire::Report::Builder b) {
                                    b.setHasVersion(m.version.has_value());
                                    b.setVersion(m.version.value_or(0));
                                    put_numbers(b.initHeld(m.held.size()), m.held);
                                    put_numbers(b.initSummed(m.summed.size()), m.summed);
                                    b.setAhead(m.ahead);
                                  })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Report::Reader r) {
  Report m{stamp_from(frame), {}};
  if (r.getHasVersion()) m.version = r.getVersion();
  m.held = buckets_from(r.getHeld());
  m.summed = buckets_from(r.getSummed());
  m.ahead = r.getAhead();
  return m;
}

FramePtr to_frame(const JobId& job, const Ready& m) {
  return Msg<wire::Ready>::build(envelope_of(job, m.stamp),
                                 [&](wire::Ready::Builder b) { b.setVersion(m.version); })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Ready::Reader r) {
  return Ready{stamp_from(frame), r.getVersion()};
}

FramePtr to_frame(const JobId& job, const Drained& m) {
  return Msg<wire::Drained>::build(envelope_of(job, m.stamp),
                                   [&](wire::Drained::Builder b) { b.setVersion(m.version); })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Drained::Reader r) {
  return Drained{stamp_from(frame), r.getVersion()};
}

FramePtr to_frame(const JobId& job, const Committed& m) {
  return Msg<wire::Committed>::build(envelope_of(job, m.stamp),
                                     [&](wire::Committed::Builder b) { put(b.initLine(), m.line); })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Committed::Reader r) {
  return Committed{stamp_from(frame), line_from(r.getLine())};
}

FramePtr to_frame(const JobId& job, const Evaluated& m) {
  return Msg<wire::Evaluated>::build(envelope_of(job, m.stamp),
                                     [&](wire::Evaluated::Builder b) {
                                       b.setVersion(m.version);
                                       b.setTotals(data_of(*m.totals));
                                     })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Evaluated::Reader r) {
  return Evaluated{stamp_from(frame), r.getVersion(), bytes_from(r.getTotals())};
}

FramePtr to_frame(const JobId& job, const Suspect& m) {
  return Msg<wire::Suspect>::build(envelope_of(job, m.stamp),
                                   [&](wire::Suspect::Builder b) {
                                     b.setStep(m.step);
                                     b.setAwaited(m.awaited.value);
                                   })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Suspect::Reader r) {
  return Suspect{stamp_from(frame), r.getStep(), {r.getAwaited()}};
}

FramePtr to_frame(const JobId& job, const CheckpointWritten& m) {
  return Msg<wire::CheckpointWritten>::build(envelope_of(job, m.stamp),
                                             [&](wire::CheckpointWritten::Builder b) {
                                               b.setRequest(m.request);
                                               b.setPath(m.path);
                                               b.setVersion(m.version);
                                               put(b.initParams(), m.digests.params);
                                               put(b.initState(), m.digests.state);
                                               b.setError(m.error);
                                               b.setErrorKind(to_wire(m.error_kind));
                                               b.setSeconds(m.seconds);
                                             })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::CheckpointWritten::Reader r) {
  const double seconds = r.getSeconds();
  return CheckpointWritten{stamp_from(frame),
                           r.getRequest(),
                           r.getPath().cStr(),
                           r.getVersion(),
                           {digest_from(r.getParams()), digest_from(r.getState())},
                           r.getError().cStr(),
                           error_kind_from(r.getErrorKind()),
                           seconds > 0 && std::isfinite(seconds) ? seconds : 0};
}

FramePtr to_frame(const JobId& job, const CheckpointUnreadable& m) {
  return Msg<wire::CheckpointUnreadable>::build(envelope_of(job, m.stamp),
                                                [&](wire::CheckpointUnreadable::Builder b) {
                                                  b.setPath(m.path);
                                                  b.setError(m.error);
                                                  b.setGone(m.gone);
                                                })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::CheckpointUnreadable::Reader r) {
  return CheckpointUnreadable{stamp_from(frame), r.getPath().cStr(), r.getError().cStr(),
                              r.getGone()};
}

FramePtr to_frame(const JobId& job, const Audited& m) {
  return Msg<wire::Audited>::build(envelope_of(job, m.stamp),
                                   [&](wire::Audited::Builder b) {
                                     b.setStep(m.step);
                                     b.setRank(m.rank);
                                     put(b.initDigest(), m.digest);
                                   })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Audited::Reader r) {
  return Audited{stamp_from(frame), r.getStep(), r.getRank(), digest_from(r.getDigest())};
}

FramePtr to_frame(const JobId& job, const Failed& m) {
  return Msg<wire::Failed>::build(envelope_of(job, m.stamp),
                                  [&](wire::Failed::Builder b) {
                                    b.setError(m.error);
                                    b.setElsewhere(m.elsewhere);
                                  })
      .frame();
}

WorkerMessage from(const Frame& frame, wire::Failed::Reader r) {
  return Failed{stamp_from(frame), r.getError().cStr(), r.getElsewhere()};
}

// --- head -> worker

// Messages without fields of their own.
template <class Schema, class Message>
FramePtr bare(const JobId& job, const Message& m) {
  return Msg<Schema>::build(envelope_of(job, m.stamp), [](typename Schema::Builder) {}).frame();
}

FramePtr to_frame(const JobId& job, const Prepare& m) {
  return bare<wire::Prepare>(job, m);
}
FramePtr to_frame(const JobId& job, const Go& m) {
  return bare<wire::Go>(job, m);
}
FramePtr to_frame(const JobId& job, const Release& m) {
  return bare<wire::Release>(job, m);
}
FramePtr to_frame(const JobId& job, const Drain& m) {
  return bare<wire::Drain>(job, m);
}

HeadMessage from(const Frame& frame, wire::Prepare::Reader) {
  return Prepare{stamp_from(frame)};
}
HeadMessage from(const Frame& frame, wire::Go::Reader) {
  return Go{stamp_from(frame)};
}
HeadMessage from(const Frame& frame, wire::Release::Reader) {
  return Release{stamp_from(frame)};
}
HeadMessage from(const Frame& frame, wire::Drain::Reader) {
  return Drain{stamp_from(frame)};
}

void put_source(wire::Install::Source::Builder b, const Source& source) {
  if (const auto* peer = std::get_if<FromPeer>(&source)) {
    auto group = b.initPeer();
    group.setIncarnation(peer->incarnation.value);
    group.setAddress(peer->address);
    group.setHostId(peer->host_id);
  } else if (const auto* disk = std::get_if<FromCheckpoint>(&source)) {
    if (disk->node.empty()) return b.setCheckpoint(disk->path);
    auto carried = b.initCarried();
    carried.setPath(disk->path);
    carried.setNode(disk->node);
  } else {
    b.setSeed();
  }
}

Source source_from(wire::Install::Source::Reader r) {
  switch (r.which()) {
    case wire::Install::Source::SEED:
      return FromSeed{};
    case wire::Install::Source::PEER:
      return FromPeer{{r.getPeer().getIncarnation()},
                      r.getPeer().getAddress().cStr(),
                      r.getPeer().getHostId().cStr()};
    case wire::Install::Source::CHECKPOINT:
      return FromCheckpoint{r.getCheckpoint().cStr()};
    case wire::Install::Source::CARRIED:
      return FromCheckpoint{r.getCarried().getPath().cStr(), r.getCarried().getNode().cStr()};
  }
  // Cap'n Proto does not check the number of a union's case.
  reject("source", static_cast<std::uint64_t>(r.which()));
}

// Empty if the job decides nothing.
std::string decisions_from(capnp::Text::Reader text) {
  std::string decisions = text.cStr();
  if (!decisions.empty() && !decode_decisions(decisions)) reject("decisions", decisions.size());
  return decisions;
}

void put_holders(wire::Install::Builder b, const Install& m) {
  auto holders = b.initHolders(m.holders.size());
  for (std::size_t i = 0; i < m.holders.size(); ++i) {
    holders[i].setOwner(m.holders[i].owner.value);
    holders[i].setBuddy(m.holders[i].buddy.value);
  }
  auto sources = b.initShardSources(m.shard_sources.size());
  for (std::size_t i = 0; i < m.shard_sources.size(); ++i) {
    sources[i].setIncarnation(m.shard_sources[i].incarnation.value);
    sources[i].setAddress(m.shard_sources[i].address);
    sources[i].setHostId(m.shard_sources[i].host_id);
  }
}

// Every bucket has holders among the members, and a source if the version comes from a peer.
void take_holders(Install& m, wire::Install::Reader r) {
  const auto is_member = [&m](std::uint64_t incarnation) {
    return std::ranges::any_of(
        m.members, [&](const Member& member) { return member.incarnation.value == incarnation; });
  };
  const std::size_t count = r.getHolders().size();
  if (count != 0 && count != m.bucket_count) reject("number of holders", count);
  for (const auto holders : r.getHolders()) {
    if (!is_member(holders.getOwner())) reject("owner", holders.getOwner());
    // Only a member that is alone is its own buddy.
    const bool is_alone = m.members.size() == 1;
    if (!is_member(holders.getBuddy()) || (holders.getBuddy() == holders.getOwner()) != is_alone)
      reject("buddy", holders.getBuddy());
    m.holders.push_back({{holders.getOwner()}, {holders.getBuddy()}});
  }
  const bool from_peer = std::holds_alternative<FromPeer>(m.source);
  const std::size_t sources = r.getShardSources().size();
  if (sources != (from_peer ? count : 0)) reject("number of shard sources", sources);
  for (const auto source : r.getShardSources())
    m.shard_sources.push_back(
        {{source.getIncarnation()}, source.getAddress().cStr(), source.getHostId().cStr()});
}

FramePtr to_frame(const JobId& job, const Install& m) {
  return Msg<wire::Install>::build(envelope_of(job, m.stamp),
                                   [&](wire::Install::Builder b) {
                                     b.setTarget(m.target);
                                     auto members = b.initMembers(m.members.size());
                                     for (std::size_t i = 0; i < m.members.size(); ++i) {
                                       members[i].setIncarnation(m.members[i].incarnation.value);
                                       members[i].setRankBegin(m.members[i].ranks.begin);
                                       members[i].setRankEnd(m.members[i].ranks.end);
                                       members[i].setAddress(m.members[i].address);
                                       members[i].setHostId(m.members[i].host_id);
                                       members[i].setChannelKind(m.members[i].channel.kind);
                                       members[i].setChannelDevice(m.members[i].channel.device);
                                     }
                                     put_source(b.getSource(), m.source);
                                     b.setBucketCount(m.bucket_count);
                                     b.setLastVersion(m.last_version);
                                     b.setPauses(m.pause_at.has_value());
                                     b.setPauseAt(m.pause_at.value_or(0));
                                     b.setEvaluatedThrough(m.evaluated_through);
                                     b.setAcknowledgedThrough(m.acknowledged_through);
                                     b.setDecisions(m.decisions);
                                     put_holders(b, m);
                                   })
      .frame();
}

HeadMessage from(const Frame& frame, wire::Install::Reader r) {
  Install m;
  m.stamp = stamp_from(frame);
  m.target = r.getTarget();
  for (const auto member : r.getMembers()) {
    // The members must cover the ranks in order and without a gap, because the number of a member
    // decides which buckets it owns.
    const VirtualRank expected = m.members.empty() ? 0 : m.members.back().ranks.end;
    if (member.getRankBegin() != expected) reject("member rank", member.getRankBegin());
    if (member.getRankEnd() <= member.getRankBegin()) reject("member rank", member.getRankEnd());
    m.members.push_back({{member.getIncarnation()},
                         {member.getRankBegin(), member.getRankEnd()},
                         member.getAddress().cStr(),
                         member.getHostId().cStr(),
                         {member.getChannelKind().cStr(), member.getChannelDevice().cStr()}});
  }
  m.source = source_from(r.getSource());
  m.bucket_count = r.getBucketCount();
  m.last_version = r.getLastVersion();
  if (r.getPauses()) m.pause_at = r.getPauseAt();
  m.evaluated_through = r.getEvaluatedThrough();
  m.acknowledged_through = r.getAcknowledgedThrough();
  m.decisions = decisions_from(r.getDecisions());
  take_holders(m, r);
  return m;
}

FramePtr to_frame(const JobId& job, const Acknowledge& m) {
  return Msg<wire::Acknowledge>::build(
             envelope_of(job, m.stamp),
             [&](wire::Acknowledge::Builder b) { b.setThrough(m.through); })
      .frame();
}

HeadMessage from(const Frame& frame, wire::Acknowledge::Reader r) {
  return Acknowledge{stamp_from(frame), r.getThrough()};
}

FramePtr to_frame(const JobId& job, const WriteCheckpoint& m) {
  return Msg<wire::WriteCheckpoint>::build(envelope_of(job, m.stamp),
                                           [&](wire::WriteCheckpoint::Builder b) {
                                             b.setRequest(m.request);
                                             b.setDirectory(m.directory);
                                             b.setPeriodic(m.periodic);
                                             b.setAt(m.at);
                                             b.setMakeParent(m.make_parent);
                                           })
      .frame();
}

HeadMessage from(const Frame& frame, wire::WriteCheckpoint::Reader r) {
  return WriteCheckpoint{stamp_from(frame), r.getRequest(), r.getDirectory().cStr(),
                         r.getPeriodic(),   r.getAt(),      r.getMakeParent()};
}

FramePtr to_frame(const JobId& job, const Audit& m) {
  return Msg<wire::Audit>::build(envelope_of(job, m.stamp),
                                 [&](wire::Audit::Builder b) {
                                   b.setStep(m.step);
                                   b.setRank(m.rank);
                                 })
      .frame();
}

HeadMessage from(const Frame& frame, wire::Audit::Reader r) {
  return Audit{stamp_from(frame), r.getStep(), r.getRank()};
}

FramePtr to_frame(const JobId& job, const AuditPassed& m) {
  return Msg<wire::AuditPassed>::build(envelope_of(job, m.stamp),
                                       [&](wire::AuditPassed::Builder b) { b.setStep(m.step); })
      .frame();
}

HeadMessage from(const Frame& frame, wire::AuditPassed::Reader r) {
  return AuditPassed{stamp_from(frame), r.getStep()};
}

FramePtr to_frame(const JobId& job, const Decided& m) {
  return Msg<wire::Decided>::build(envelope_of(job, m.stamp),
                                   [&](wire::Decided::Builder b) {
                                     b.setStep(m.step);
                                     b.setDecisions(m.decisions);
                                   })
      .frame();
}

HeadMessage from(const Frame& frame, wire::Decided::Reader r) {
  return Decided{stamp_from(frame), r.getStep(), decisions_from(r.getDecisions())};
}

// Decodes `frame` with the first schema of the list whose type matches.
template <class Message, class First, class... Rest>
Result<Message> decode_as(const FramePtr& frame) {
  if (frame->envelope.type == MessageTypeOf<First>::value) {
    auto typed = Msg<First>::from_frame(frame);
    if (!typed) return typed.error();
    return typed->decode([&](typename First::Reader r) { return from(*frame, r); });
  }
  if constexpr (sizeof...(Rest) > 0) return decode_as<Message, Rest...>(frame);
  return usage_error("message type " + std::to_string(static_cast<int>(frame->envelope.type)) +
                     " does not belong here");
}

bool in(MessageType type, MessageType first, MessageType last) {
  return first <= type && type <= last;
}

}  // namespace

FramePtr encode(const JobId& job, const PeerMessage& message) {
  return std::visit([&](const auto& m) { return to_frame(job, m); }, message);
}
FramePtr encode(const JobId& job, const WorkerMessage& message) {
  return std::visit([&](const auto& m) { return to_frame(job, m); }, message);
}
FramePtr encode(const JobId& job, const HeadMessage& message) {
  return std::visit([&](const auto& m) { return to_frame(job, m); }, message);
}

bool is_peer_message(MessageType type) {
  switch (type) {
    case MessageType::kContrib:
    case MessageType::kReduced:
    case MessageType::kFetch:
    case MessageType::kState:
    case MessageType::kComplete:
    case MessageType::kUpdated:
    case MessageType::kFetchShards:
    case MessageType::kShards:
      return true;
    default:
      return false;
  }
}

bool is_head_message(MessageType type) {
  switch (type) {
    case MessageType::kPrepare:
    case MessageType::kInstall:
    case MessageType::kGo:
    case MessageType::kRelease:
    case MessageType::kDrain:
    case MessageType::kAcknowledge:
    case MessageType::kWriteCheckpoint:
    case MessageType::kAudit:
    case MessageType::kAuditPassed:
    case MessageType::kDecided:
      return true;
    default:
      return false;
  }
}

bool is_worker_message(MessageType type) {
  // These two have numbers after the range, among messages that do not belong to this group.
  return type == MessageType::kAudited || type == MessageType::kCheckpointUnreadable ||
         (in(type, MessageType::kHello, MessageType::kFailed) && !is_head_message(type));
}

Result<PeerMessage> decode_peer(const FramePtr& frame) {
  return decode_as<PeerMessage, wire::Contrib, wire::Reduced, wire::Fetch, wire::State,
                   wire::Complete, wire::Updated, wire::FetchShards, wire::Shards>(frame);
}

Result<WorkerMessage> decode_worker(const FramePtr& frame) {
  return decode_as<WorkerMessage, wire::Hello, wire::Report, wire::Ready, wire::Drained,
                   wire::Committed, wire::Suspect, wire::CheckpointWritten, wire::Evaluated,
                   wire::CheckpointUnreadable, wire::Audited, wire::Failed>(frame);
}

Result<HeadMessage> decode_head(const FramePtr& frame) {
  return decode_as<HeadMessage, wire::Prepare, wire::Install, wire::Go, wire::Release, wire::Drain,
                   wire::Acknowledge, wire::WriteCheckpoint, wire::Audit, wire::AuditPassed,
                   wire::Decided>(frame);
}

}  // namespace es::actors::protocol
