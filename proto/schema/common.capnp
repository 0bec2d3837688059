@0xf1b0574e8d3c4806;
# Values that several topics use.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct Digest {
  # 128 bits, XXH3 (proto/base/digest.h).
  high @0 :UInt64;
  low @1 :UInt64;
}

struct LedgerLine {
  # What the ledger says about one version. The same on every worker, bit by bit.
  version @0 :UInt64;
  # Made by step version - 1.
  lossBits @1 :List(UInt32);
  # By virtual rank, bits of an fp32.
  params @2 :Digest;
  hasState @3 :Bool;
  state @4 :Digest;
  # At the job's last version only.
}
