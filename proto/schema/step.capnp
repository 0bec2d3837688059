@0xe8c2b9d30a6d4105;
# Messages of one global step, from worker to worker. The envelope carries the job, the generation,
# the step and the sender.
#
# A receiver drops a message of a generation below the one that it has promised (a stale message).
# It keeps a message of its own generation with step = own version + 1, and a message that arrives
# before the receiver was told to start, until it can use the message. docs/PROTOCOL.md describes
# the order of the messages.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("es::wire");

struct Bulk {
  # Refers to the bytes of a tensor, or contains them.
  union {
    segment :group {
      name @0 :Text;
      # Name of a shared-memory segment of the sender. The segment belongs to one job, generation
      # and incarnation.
      offset @1 :UInt64;
      bytes @2 :UInt64;
    }
    inlined @3 :Data;
    # The bytes themselves, for a receiver that shares no memory with the sender.
    remote :group {
      # The bytes are too many for one message, and the receiver shares no memory with the sender.
      # The receiver requests them in pieces (FetchPart).
      name @4 :Text;
      offset @5 :UInt64;
      bytes @6 :UInt64;
    }
    channel :group {
      # The next bytes of the sender in its channel to the receiver (OpenChannel).
      transfer @7 :UInt64;
      # Number of the transfer in its channel: 1, 2, 3, ... The receiver detects a lost message by a
      # gap in these numbers.
      bytes @8 :UInt64;
    }
  }
}

struct OpenChannel {
  # Sender of a channel -> its receiver: join the channel; bulk data may use it from now on. A
  # channel connects the devices of two workers in one direction, under the generation of the
  # envelope.
  kind @0 :Text;
  # Kind of the channel, as in Member.channelKind (round.capnp).
  id @1 :Data;
  # Identifier by which the two ends find each other. Its content is defined by the kind.
}

struct FetchPart {
  # Receiver of a remote Bulk -> its sender: send these bytes of that segment. The request stays
  # unanswered if the segment no longer exists. A requester that receives no bytes for some time
  # reports the sender as suspect (Suspect, round.capnp).
  segment @0 :Text;
  offset @1 :UInt64;
  bytes @2 :UInt32;
}

struct BulkPart {
  # Answer to FetchPart.
  segment @0 :Text;
  offset @1 :UInt64;
  data @2 :Data;
}

struct RankResult {
  # Results of the local step of one EST, without its gradient.
  rank @0 :UInt32;
  lossBits @1 :UInt32;
  # Bits of the fp32 mean loss of its mini-batch.
  context @2 :Data;
  # The next context of the EST, encoded (gpu/est/est_context.h).
}

struct Contrib {
  # Worker -> the member that adds it: the owner of the bucket or one on the way (sum_routes.h). The
  # worker sends it as soon as it has the sum of a maximal node of its ranks, or a partial sum that
  # it makes; at level D0 that of all its ranks. The receiver adds each rank once. It ignores a part
  # that the same sender has sent before.
  bucket @0 :UInt32;
  rankBegin @1 :UInt32;
  rankEnd @2 :UInt32;
  data @3 :Bulk;
  results @4 :List(RankResult);
  # Results of these ranks, in ascending order; only with bucket 0.
  drain @5 :Bool;
  # A member has been asked to stop at the next step boundary; only with bucket 0.
}

struct Reduced {
  # Owner -> members, when the owner has summed all ranks. The receiver stages the sum. When all
  # buckets of the step are staged, it updates its parameters and commits, in one local decision.
  bucket @0 :UInt32;
  data @1 :Bulk;
  results @2 :List(RankResult);
  # Results of all ranks; only with bucket 0. They make a worker that has committed the holder of a
  # whole checkpoint.
  drain @3 :Bool;
  # The OR of the drain flags of all contributions; only with bucket 0. All members that commit this
  # step receive the same value.
  # In a job with sharded state (Install.holders) the owner sends this message to the buddy of the
  # bucket only.
}

struct Complete {
  # Buddy -> members, in a job with sharded state: owner and buddy of the bucket both hold its sum. A
  # member that knows this of all buckets updates the shards that it holds.
  bucket @0 :UInt32;
  results @1 :List(RankResult);
  drain @2 :Bool;
  # As in Reduced.
  squares @3 :Data;
  # The sum of the squares of the summed gradient of each parameter of the bucket, in table order, as
  # fp32 numbers, little endian; empty if the job does not clip.
}

struct Updated {
  # Owner -> members that do not hold the bucket: its parameters of version step + 1. A member that
  # has those of all buckets commits the version.
  bucket @0 :UInt32;
  data @1 :Bulk;
}

struct Fetch {
  # Sealed worker -> the source that Install named: send the version in the envelope's `step`. The
  # source may not have received its own Install yet, so the message contains the address for the
  # answer.
  address @0 :Text;
  hostId @1 :Text;
}

struct State {
  # Answer to Fetch: one whole version, which the envelope's `step` names. The receiver holds the
  # version only after it has verified both digests.
  params @0 :Common.Digest;
  state @1 :Common.Digest;
  parameters @2 :Bulk;
  moments @3 :List(Bulk);
  # Arrays of the optimizer, in the optimizer's order. Their number depends on the optimizer.
  contexts @4 :List(Data);
  # Encoded contexts, indexed by virtual rank.
  unacknowledged @5 :List(Common.LedgerLine);
  # Ledger lines up to this version that the head has not acknowledged, in ascending order. With
  # them every holder of a version can also report to the head how the version was made.
}

struct FetchShards {
  # Worker -> a worker that holds shards of the version in the envelope's `step`, or will hold them in
  # this generation: send parts of it. A member that writes a checkpoint sends it before it
  # contributes to the next step, so the receiver has not gone on when it arrives.
  parameters @0 :List(UInt32);
  moments @1 :List(UInt32);
  # Buckets, in ascending order.
  rest @2 :Bool;
  # Also what belongs to no bucket.
  frozen @3 :Bool;
  # Also the parameters that are not trained.
  address @4 :Text;
  hostId @5 :Text;
}

struct Shards {
  # Answer to FetchShards. No moments, although some were asked for: the sender has gone on.
  parameters @0 :List(UInt32);
  moments @1 :List(UInt32);
  rest @2 :Bool;
  frozen @3 :Bool;
  # As in FetchShards.
  data @4 :Bulk;
  # The parameters by bucket, the frozen parameters, the moments by bucket and array
  # (actors/worker/state/version_io.h).
  digest @5 :Common.Digest;
  # Digest of all these bytes.
  contexts @6 :List(Data);
  losses @7 :List(UInt32);
  squares @8 :Data;
  drain @9 :Bool;
  unacknowledged @10 :List(Common.LedgerLine);
  # With `rest`: encoded contexts by virtual rank, bits of the losses of the step that made the
  # version, its squares and its drain flag as in Complete, and ledger lines as in State.
}
