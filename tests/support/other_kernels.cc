// oneDNN with older instructions, as another version of it might choose them. Preloaded into a
// program (LD_PRELOAD), it lowers the limit that the program sets, which the environment of oneDNN
// cannot: ONEDNN_MAX_CPU_ISA gives way to that limit. Convolutions then have other bits.
#include <dlfcn.h>

#include <oneapi/dnnl/dnnl.h>

extern "C" dnnl_status_t dnnl_set_max_cpu_isa(dnnl_cpu_isa_t) {
  static const auto real = reinterpret_cast<dnnl_status_t (*)(dnnl_cpu_isa_t)>(
      ::dlsym(RTLD_NEXT, "dnnl_set_max_cpu_isa"));
  return real(dnnl_cpu_isa_sse41);
}
