@0xa0c7f2ee51d84308;
# Inside a worker process: worker <-> EST <-> data workers, one time slice per EST and global step.
# Tensors do not travel here: messages name slots of the process's batch pool.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct GrantSlice {
  # Worker -> EST: the device is yours for the local step of this version.
  generation @0 :UInt64;
  step @1 :UInt64;
}

struct Dismiss {
  # Device -> EST: give your mini-batch back, and rest until a slice is granted again: this rank runs
  # elsewhere from now on, or the ranks that share the slots have changed.
}

struct LoadBatch {
  # EST -> data workers: load and augment the mini-batch of (step, rank). Served in the order of the
  # time slices, whatever the order of arrival; see NextSlice.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct NextSlice {
  # Device -> data workers: the slice that the device runs next. The last free slot is kept for its
  # mini-batch: ESTs ask in any order, and the device runs them in rank order, so slots that are all
  # held by later slices would never come back.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct BatchLoaded {
  # Data workers -> EST: the mini-batch lies in this slot until BatchDone.
  step @0 :UInt64;
  rank @1 :UInt32;
  slot @2 :UInt32;
  error @3 :Text;
  # Not empty: it could not be loaded, and why. It fails the job when its slice is to run, not
  # before: a mini-batch that is loaded ahead may never be needed here.
}

struct BatchDone {
  # EST -> data workers: the slot may be used again.
  slot @0 :UInt32;
}

struct RunLocalStep {
  # EST -> device: run forward and backward of my mini-batch, from my context of version `step`.
  generation @0 :UInt64;
  step @1 :UInt64;
  rank @2 :UInt32;
  slot @3 :UInt32;
  error @4 :Text;
  # Not empty: the mini-batch could not be loaded, and why.
}

struct SliceDone {
  # Device -> EST: the local step is over (or abandoned); the slot is free again.
  step @0 :UInt64;
  rank @1 :UInt32;
  slot @2 :UInt32;
}
