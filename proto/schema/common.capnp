@0xf1b0574e8d3c4806;
# Types that several schema files use.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct Digest {
  # 128 bits of XXH3 (proto/base/digest.h).
  high @0 :UInt64;
  low @1 :UInt64;
}

struct LedgerLine {
  # The ledger's record of one version. It has the same bits on every worker.
  version @0 :UInt64;
  # The version that step (version - 1) made.
  lossBits @1 :List(UInt32);
  # Losses by virtual rank, as bits of fp32 numbers.
  params @2 :Digest;
  hasState @3 :Bool;
  state @4 :Digest;
  # Digest of the state; only at the job's last version.
}
