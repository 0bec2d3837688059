@0xe8c2b9d30a6d4105;
# One global step: worker <-> worker. The envelope carries job, generation, step and sender.
#
# Stale: any of these with a generation below the one that the receiver has promised is dropped.
# Early: the same generation with step = own version + 1, or before the receiver was told to start,
# is kept until its time. Meaning and order: actors/protocol/README.md.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("es::wire");

struct Bulk {
  # Tensor bytes by reference.
  union {
    segment :group {
      name @0 :Text;
      # Shared-memory segment of the sender, belonging to one (job, generation, incarnation).
      offset @1 :UInt64;
      bytes @2 :UInt64;
    }
    inlined @3 :Data;
    # The bytes themselves, for a receiver that shares no memory with the sender.
    remote :group {
      # Too much for one message to a receiver that shares no memory with the sender: the receiver
      # asks for it in pieces (FetchPart).
      name @4 :Text;
      offset @5 :UInt64;
      bytes @6 :UInt64;
    }
    channel :group {
      # The sender's next bytes in its channel to the receiver (OpenChannel).
      transfer @7 :UInt64;
      # 1, 2, 3, ... in one channel: a message that was lost on the way shows.
      bytes @8 :UInt64;
    }
  }
}

struct OpenChannel {
  # Sender of a channel -> its receiver: join, from now on bulk data may come that way. A channel
  # joins the devices of two workers in one direction, under the envelope's generation.
  kind @0 :Text;
  # As in Member.
  id @1 :Data;
  # Under which the two ends find each other; its meaning belongs to the kind.
}

struct FetchPart {
  # Receiver of a remote Bulk -> its sender: send me these bytes of that segment. Not answered when
  # the segment is gone; whoever asks suspects the sender when no bytes come for a while.
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
  # What one EST's local step leaves beside its gradient.
  rank @0 :UInt32;
  lossBits @1 :UInt32;
  # Bits of the fp32 mean loss of its mini-batch.
  context @2 :Data;
  # Its next context, encoded (gpu/est/context.h).
}

struct Contrib {
  # Worker -> owner of the bucket, as soon as one part of its ranks is summed: the ranks of a maximal
  # node of the canonical tree; at level D0 all ranks of the sender. The owner adds each rank once;
  # the same part of the same sender again is ignored.
  bucket @0 :UInt32;
  rankBegin @1 :UInt32;
  rankEnd @2 :UInt32;
  data @3 :Bulk;
  results @4 :List(RankResult);
  # Bucket 0 only: of these ranks, ascending.
  drain @5 :Bool;
  # Bucket 0 only: the sender has been asked to stop at the next boundary.
}

struct Reduced {
  # Owner -> members, when all ranks are in. The receiver stages it; when all buckets of the step are
  # staged it updates and commits, in one local decision.
  bucket @0 :UInt32;
  data @1 :Bulk;
  results @2 :List(RankResult);
  # Bucket 0 only: of all ranks. So a worker that has committed holds a whole checkpoint.
  drain @3 :Bool;
  # Bucket 0 only: OR of the contributions' flags, the same for all that commit this step.
}

struct Fetch {
  # Sealed worker -> the source that Install named: send me the version in the envelope's `step`. The
  # source may not have its own Install yet, so the message says where the answer goes.
  address @0 :Text;
  hostId @1 :Text;
}

struct State {
  # Answer to Fetch: one whole version, the envelope's `step`. The receiver verifies both digests
  # before it counts as holding it.
  params @0 :Common.Digest;
  state @1 :Common.Digest;
  parameters @2 :Bulk;
  moments @3 :List(Bulk);
  # Arrays of the optimizer's state, in its order; as many as the kind of optimizer has.
  contexts @4 :List(Data);
  # By virtual rank.
  unacknowledged @5 :List(Common.LedgerLine);
  # What the head has not acknowledged, ascending, up to this version: whoever holds a version can
  # also tell the head how it came to be.
}
