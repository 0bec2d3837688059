@0xa0c7f2ee51d84308;
# Messages inside a worker process: worker <-> EST <-> data workers. There is one time slice for
# each EST and global step. The messages do not contain tensors; they name slots of the process's
# pool of mini-batches.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct GrantSlice {
  # Device -> EST: the device is yours for the local step of this version.
  generation @0 :UInt64;
  step @1 :UInt64;
}

struct Dismiss {
  # Device -> EST: return your mini-batch, and rest until a slice is granted again. Either this rank
  # runs elsewhere from now on, or the set of ranks that share the slots has changed.
}

struct LoadBatch {
  # EST -> data workers: load and augment the mini-batch of (step, rank). Requests are served in the
  # order of the time slices, whatever the order of their arrival; see NextSlice.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct NextSlice {
  # Device -> data workers: the slice that the device runs next. The last free slot is reserved for
  # its mini-batch. Without this rule the system could deadlock: ESTs request in any order, but the
  # device runs them in rank order, so later slices could hold all slots while the next slice has
  # none.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct BatchLoaded {
  # Data workers -> EST: the mini-batch is in this slot until BatchDone.
  step @0 :UInt64;
  rank @1 :UInt32;
  slot @2 :UInt32;
  error @3 :Text;
  # Why the mini-batch could not be loaded; empty if it was loaded. The error fails the job only
  # when the slice is about to run, because a mini-batch that is loaded ahead may never be needed
  # here.
}

struct BatchDone {
  # EST -> data workers: the slot may be reused.
  slot @0 :UInt32;
}

struct RunLocalStep {
  # EST -> device: run the forward and the backward pass of this mini-batch, from the EST's context
  # of version `step`.
  generation @0 :UInt64;
  step @1 :UInt64;
  rank @2 :UInt32;
  slot @3 :UInt32;
  error @4 :Text;
  # Why the mini-batch could not be loaded; empty if it was loaded.
}

struct SliceDone {
  # Device -> EST: the local step has ended or was abandoned, and the slot is free again.
  step @0 :UInt64;
  rank @1 :UInt32;
  slot @2 :UInt32;
}
