#pragma once
// One way to describe a kernel to versions 2 and 3 of oneDNN. Version 2 takes the arguments as an
// operation descriptor of their own, version 3 takes them together with the engine.
#include <oneapi/dnnl/dnnl.hpp>

namespace es::gpu {

// The arguments of an operation in the order in which both versions take them.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc described(const dnnl::engine& engine,
                                             const dnnl::primitive_attr& attr,
                                             const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), attr, engine};
#else
  return {engine, arguments..., attr};
#endif
}

// The same for a gradient, whose kernel has to suit that of the forward pass.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc described_gradient(const dnnl::engine& engine,
                                                      const dnnl::primitive_attr& attr,
                                                      const Forward& forward,
                                                      const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), attr, engine, forward};
#else
  return {engine, arguments..., forward, attr};
#endif
}

}  // namespace es::gpu
