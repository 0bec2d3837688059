@0xc7a5d0f2a41b9e63;
# A model file: a model and its loss, as a user brings them (proto/base/model_program.h explains every
# field). The file is the 8 bytes "ESMODEL1", then this message. Capnp's JSON codec gives its JSON
# form, which `esctl models pack` reads and `esctl models show --json` prints.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
$Cxx.namespace("es::wire");

struct Model {
  format @0 :UInt32;
  producer @1 :Text;
  name @2 :Text;
  values @3 :List(Value);
  inputs @4 :List(Input);
  parameters @5 :List(Parameter);
  statistics @6 :List(Statistic);
  buffers @7 :List(Buffer);
  constants @8 :List(Constant);
  nodes @9 :List(Node);
  loss @10 :Int32;
  outputs @11 :List(Output);
  states @12 :List(State);  # missing: none; in files of the format 2 or more
  numbers @13 :List(Numbers);  # missing: none; in files of the format 4, as the next
  updates @14 :List(Update);
  programs @15 :List(Model);  # missing: none; in files of the format 5, as the next
  every @16 :List(UInt32);

  enum Type {
    f32 @0;
    i32 @1;
    bool @2;
    i64 @3;
  }
  struct Dim {
    size @0 :Int64;
    perBatch @1 :Bool;
  }
  struct Value {
    type @0 :Type;
    dims @1 :List(Dim);
  }
  struct Input {
    name @0 :Text;
    value @1 :Int32;
    low @2 :Int32;
    high @3 :Int32;
  }
  struct Parameter {
    name @0 :Text;
    aliases @1 :List(Text);
    value @2 :Int32;
    trainable @3 :Bool = true;
    init @4 :Init;  # missing: the initial values come from a file of weights
  }
  struct Init {
    constant @0 :Float32;
    bound @1 :Float32;
  }
  struct Statistic {
    name @0 :Text;
    size @1 :Int64;
    isVariance @2 :Bool;
  }
  struct State {
    name @0 :Text;
    dtype @1 :Text;
    value @2 :Int32;
  }
  struct Buffer {
    name @0 :Text;
    dtype @1 :Text;
    shape @2 :List(Int64);
    bytes @3 :Data $Json.base64;
  }
  struct Constant {
    name @0 :Text;
    value @1 :Int32;
    words @2 :Data $Json.base64;  # 4 bytes per element, or 8 of an i64, little-endian
  }
  struct Attribute {
    name @0 :Text;
    union {
      flag @1 :Bool;
      integer @2 :Int64;
      number @3 :Float64;
      text @4 :Text;
      integers @5 :List(Int64);
      numbers @6 :List(Float64);
    }
  }
  struct Node {
    kind @0 :Text;
    version @1 :UInt32 = 1;
    name @2 :Text;
    inputs @3 :List(Int32);
    outputs @4 :List(Int32);
    attributes @5 :List(Attribute);
    source @6 :Text;
    region @7 :UInt32;
  }
  struct Output {
    name @0 :Text;
    value @1 :Int32;
  }
  struct Numbers {
    name @0 :Text;
    values @1 :Data $Json.base64;  # 4 bytes per step: fp32, little-endian
    reductions @2 :UInt32;  # missing: 0; above 0 in files of the format 6
  }
  struct Phase {
    firstStep @0 :UInt64;
    program @1 :UInt32;
  }
  struct Update {
    parameters @0 :List(Text);
    programs @1 :List(Model);
    phases @2 :List(Phase);
  }
}
